"""vLLM servers as one engine, over HTTP.

address, client, facts, wire   one server: who it is, what it is asked, what it answers
server, pool                   many of them: who is asked, again, or given up
label, carriers, handover      new weights: by folder, lora or transfer, and their proof
engine, starting               both as an Engine, made from settings
launch                         a server of one's own
"""
