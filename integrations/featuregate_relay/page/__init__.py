"""The page of a relay for people: what each cluster can do, made of HTML on the server.

- `featuregate_relay.page.paths` has the paths and their headers;
- ``templates`` holds the HTML, and ``assets`` the style.
"""
