"""Run a checkout's own Python in a process of its own, which ends with the one that started it.

``python foreign.py serve SERVER`` runs an app's server on the loopback interface alone, and prints
its port; ``... verify FILE URL`` runs a verifier, and prints what it says as JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import socketserver
import sys
import threading


def end_with_standard_input() -> None:
    """End this process once its standard input is closed, which the end of its parent does."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def serve(server: str) -> None:
    """Run a server's file until this process ends; where it listens is printed as the first line."""
    bind, activate = socketserver.TCPServer.server_bind, socketserver.TCPServer.server_activate

    def bound(self: socketserver.TCPServer) -> None:
        self.server_address = ("127.0.0.1", 0)
        bind(self)

    def activated(self: socketserver.TCPServer) -> None:
        activate(self)
        sys.stdout.write(f"{self.socket.getsockname()[1]}\n")
        sys.stdout.flush()
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - what it logs nobody reads

    for name, method in (("server_bind", bound), ("server_activate", activated)):
        setattr(socketserver.TCPServer, name, method)
    os.chdir(os.path.dirname(os.path.abspath(server)))
    sys.argv = [server, "--port", "0"]
    runpy.run_path(server, run_name="__main__")


def verify(file: str, url: str) -> None:
    """Print whether a verifier is content, and what it says; it is not where it fails on what it sees of the app."""
    check = runpy.run_path(file)["verify"]
    try:
        solved, why = check(url)
    except OSError:  # it has seen nothing
        raise
    except Exception as error:  # noqa: BLE001 - whatever it stumbles over, the agent has left it so
        solved, why = False, f"the verifier failed: {type(error).__name__}: {error}"
    sys.stdout.write(json.dumps([bool(solved), str(why)]) + "\n")


if __name__ == "__main__":
    end_with_standard_input()
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        verify(*sys.argv[2:])
