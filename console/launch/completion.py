"""Completes words of a command line in bash, zsh and fish. Each shell's script asks the hidden command for them."""

from collections.abc import Mapping, Sequence

from console.launch import groups

HIDDEN = "complete_words"
"""Its arguments are the words of the line as typed, the program's name first, the unfinished one last."""
BASH = """\
_fabricflow() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" complete_words "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _fabricflow fabricflow manage.py
"""
ZSH = """\
#compdef fabricflow manage.py
_fabricflow() {
    local -a found
    found=("${(@f)$("$words[1]" complete_words "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && compadd -a found || _files
}
compdef _fabricflow fabricflow manage.py
"""
FISH = """\
function __fabricflow
    set -l typed (commandline -opc)
    $typed[1] complete_words $typed (commandline -ct) 2>/dev/null
end
complete -c fabricflow -a '(__fabricflow)'
complete -c manage.py -a '(__fabricflow)'
"""
SCRIPTS: Mapping[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def find_script(words: Sequence[str]) -> str:
    """Return the script of the shell that is named; empty: none is, or an unknown one."""
    return SCRIPTS.get(words[0], "").rstrip() if len(words) == 1 else ""


def complete_name(words: Sequence[str]) -> str | None:
    """Return the names of commands that the unfinished word begins. None: it is no name of a command."""
    if len(words) != 2:
        return None
    return "\n".join(name for name in sorted(groups.NAMES) if name.startswith(words[1]))
