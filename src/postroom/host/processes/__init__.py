"""The processes of an application: started, filled, replaced, stopped."""
