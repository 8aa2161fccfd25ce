"""For all tests."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what runs in the background like this, and children would inherit it: no
    # Ctrl-C would reach them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
