"""Reports: folders of runs and evaluations → a page and its Markdown twin.

One file a noun: what a folder says (facts, from lines, episodes and tools), what follows from it
(verdict, health, settings), how it is drawn (panels, charts), and what is shown (document, with
its sections), in HTML (page) and in Markdown (markdown).
"""
