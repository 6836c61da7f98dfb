"""Runs in the environment of another package, which is all that it imports: keeps that package's memories in stores.

``python -m hosted PACKAGE FOLDER``, in the folder above. Each line of the input is a request as JSON, and each line of
the output a reply. A store never changes: what writes makes a new one, from a copy.
"""
