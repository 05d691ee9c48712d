"""One screen per stage of the work, and the sheets that open over them."""
