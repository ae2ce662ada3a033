# Lines of text as one string for C.
s/[\\"]/\\&/g
s/^/"/
s/$/\\n"/
