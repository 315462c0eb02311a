"""A cluster in a terminal: jobs, shares, nodes and events, with keys, and an explanation of each job.

It is built from `app.view` and does not depend on the sandbox: it shows anything that has frames (`WatchedCluster`).
`rows` turns a frame into text and is pure; `listing` scrolls and selects; `view` is the program, with its dialogs.
Textual does the scrolling, resizing and restoring of the terminal, and lets tests press keys; it is loaded only when
this screen is shown.
"""
