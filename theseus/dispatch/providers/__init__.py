"""The kinds of hosts: what is free there, and how a run is started, watched and ended."""
