"""The page. It lays out the regions; what they show and do goes through `studio.api`."""
