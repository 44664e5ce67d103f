# What bash reads in Lab's terminals: all that a login shell reads. Between the system's files and the
# user's own come the programs of the notebook server's environment: the system's files set PATH anew,
# the user's own, conda's among them, may put theirs first.
if [ -r /etc/profile ]; then
  . /etc/profile
fi
PATH="$GPUCOMMONS_PROGRAMS${PATH:+:$PATH}"
export PATH
for _gpucommons_file in "$HOME/.bash_profile" "$HOME/.bash_login" "$HOME/.profile"; do
  if [ -r "$_gpucommons_file" ]; then
    . "$_gpucommons_file"
    break
  fi
done
unset _gpucommons_file
case ":$PATH:" in
  *":$GPUCOMMONS_PROGRAMS:"*) ;;
  *) PATH="${PATH:+$PATH:}$GPUCOMMONS_PROGRAMS" ;;
esac
unset GPUCOMMONS_PROGRAMS
