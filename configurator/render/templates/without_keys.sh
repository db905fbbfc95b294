# The engine writes its arguments into its log. `tr` makes progress bars lines, so that none is held back.
without_keys() {
  trap '' HUP INT TERM
  stdbuf -o0 tr '\r' '\n' | LC_ALL=C sed -uE '
    s/(api[_-]key["\x27]?[=:, ]+)\x27([^\x27\\]|\\.)*\x27/\1\x27<redacted>\x27/gI
    s/(api[_-]key["\x27]?[=:, ]+)"([^"\\]|\\.)*"/\1"<redacted>"/gI
    s/(api[_-]key\\+["\x27][=:, ]+\\+["\x27])([^\\]|\\\\(\\.)?)*/\1<redacted>/gI
    s/(--(admin-)?api-key[= ]+)[^ ,]+/\1<redacted>/g'
}
