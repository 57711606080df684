"""From a request to a page: routes, forms, cookies, who asks."""
