"""The HTTP service: validates what is asked, calls the other parts, and dumps their records.

    gate        who may ask what: Host, token, rate, size of the body
    sources     which checkpoints may be named, and those opened lately
    jobs        measurements and starts of servers, each in a process of its own (``worker``)
    routes      one file per group of routes
    app         all of it together

No module here knows a formula, and nothing is imported by the other parts.
"""
