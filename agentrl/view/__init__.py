"""Runs and evaluations as pages: recorded lines → what a person reads in a browser.

One file a noun: a line in short (brief), the lines of a step (chapter), why one was kept (why),
a run or an evaluation (story), what stands side by side (scene), a conversation (transcript), and
the pages that show them (book, page), in files or served (server).
"""
