"""Chips, UltraServers and clusters as objects, and the published facts that they are made of.

`trn3.system.facts` reads spec files, `trn3.system.spec` computes a system's figures from its parts
and sets them beside what is published, `trn3.system.comparison` sets systems beside each other.
"""
