package shell

import (
	"os/exec"
	"testing"
)

func TestAShellReadsAQuotedWordAsItIs(t *testing.T) {
	for _, word := range []string{"", "a b", "'", "it's; $HOME `id` \\ \" \n*", "''"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Quoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: %q, %v", word, out, err)
		}
	}
}
