"""A cluster in a terminal, with keys: jobs, shares, nodes and events, and an explanation of each.

It is made from `app.view` and knows no sandbox: whatever has frames can be watched with it (`source`). `rows` and
`heading` turn a frame into text and are pure; `listing` scrolls and selects; `dialogs` lie above it; `view` is the
program. Textual carries it: scrolling, resizing, restoring the terminal, and tests that press keys come with it, and
it is loaded only where this screen is shown.
"""
