"""What is wrong with an object whose shape is right: the rules that the API server would apply.

Each check takes the object, the path to it and the list of findings it adds to. The good path is the hot one
(a file may have tens of thousands of pods), so checks on texts that repeat are remembered.
"""
