"""The web: sign-ups a second, and how long pages take however much there is."""
