"""A relay and its peers under load: servers in processes of their own, and the clients that this process is."""
