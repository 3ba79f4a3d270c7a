package diags

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
	"muster/internal/kit/shell"
)

// Shell runs scripts for sh on a host: {"sh", "-s"} here, {"ssh", "-oBatchMode=yes", "root@sm2", "sh", "-s"} elsewhere.
// The script comes by standard input. One that is cut off does nothing from there on.
type Shell []string

// here is this host's shell; it is never changed.
var here = Shell{"/bin/sh", "-s"}

// Run returns what the script printed. It ends with ctx.
func (s Shell) Run(ctx context.Context, script string) ([]byte, error) {
	if len(s) == 0 {
		s = here
	}
	c := exec.CommandContext(ctx, s[0], s[1:]...)
	c.Stdin = strings.NewReader(script)
	c.WaitDelay = time.Second
	var told bytes.Buffer
	c.Stderr = &told
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		words := strings.Join(slices.DeleteFunc(strings.Fields(told.String()), isProcess), " ")
		return out, fmt.Errorf("%s: %w: %s", s[0], err, words[max(0, len(words)-300):])
	}
	return out, nil
}

// isProcess says that a word is the number of a process, as in "ibwarn: [2217] …", without which the same fault says the same.
func isProcess(word string) bool {
	inside, begins := strings.CutPrefix(word, "[")
	inside, ends := strings.CutSuffix(inside, "]")
	_, err := strconv.Atoi(inside)
	return begins && ends && err == nil
}

func quotedAll(words []string) string {
	return strings.Join(lists.Map(words, shell.Quoted), " ")
}

// hostForm is what ssh takes for a host and no shell, and nothing that ssh passes the name to, takes for anything else.
var hostForm = pattern.New(`^(ssh://)?([A-Za-z0-9_][A-Za-z0-9_.-]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.:-]*)$`)

// ShellOf is the shell of a host, "here" or whatever ssh takes: ssh must get in with a key, and without a question.
func ShellOf(host string) (Shell, error) {
	switch {
	case host == "here":
		return here, nil
	case !hostForm.MatchString(host):
		return nil, fmt.Errorf("%q is no host; name one as ssh does, such as root@sm2, or here", host)
	}
	return Shell{"ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "-oForwardAgent=no", "-oClearAllForwardings=yes",
		"--", host, "sh", "-s"}, nil
}
