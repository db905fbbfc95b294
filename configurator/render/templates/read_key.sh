# The key of env:NAME or file:PATH goes into the variable $2; where it cannot be used, configurator_why
# says why. A line break at its end is none of it; nothing that a request cannot carry is one.
configurator_read_key() {
  local LC_ALL=C configurator_name=${1#*:} configurator_value='' configurator_where='' configurator_nul=''
  configurator_why=''
  case $1 in
    env:*)
      configurator_where="variable $configurator_name"
      configurator_value=${!configurator_name-}
      ;;
    file:*)
      configurator_where="the key file $configurator_name"
      [[ -f $configurator_name && -r $configurator_name ]] ||
        configurator_no_key "$configurator_where cannot be read" || return
      # Only a NUL ends what is read here.
      ! IFS= read -rd '' configurator_value <"$configurator_name" || configurator_nul=1
      ;;
  esac
  configurator_value=${configurator_value%$'\n'}
  configurator_value=${configurator_value%$'\r'}
  [[ -n $configurator_where ]] ||
    configurator_no_key "'$1' says of no key where it is; write env:NAME or file:PATH" || return
  [[ -z $configurator_nul ]] ||
    configurator_no_key "$configurator_where holds a NUL; put the key alone there" || return
  [[ -n $configurator_value ]] ||
    configurator_no_key "$configurator_where is empty; it must hold the key" || return
  [[ -z ${configurator_value:4096} ]] ||
    configurator_no_key "$configurator_where holds more than 4096 characters; put the key alone there" || return
  [[ $configurator_value != *[$'\r\n']* ]] ||
    configurator_no_key "$configurator_where holds several lines; put the key alone there" || return
  [[ $configurator_value != *[!!-~]* ]] ||
    configurator_no_key "$configurator_where holds a space, a control character or one that is not ASCII; put the key alone there" || return
  printf -v "$2" %s "$configurator_value"
}
configurator_no_key() { configurator_why=$1; return 1; }
