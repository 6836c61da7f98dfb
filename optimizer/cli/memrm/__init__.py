"""``mnemotune memrm``: its commands, one file each."""
