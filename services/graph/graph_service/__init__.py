"""The service `graph`: who there is, who follows whom, and what a timeline must know of its viewer."""
