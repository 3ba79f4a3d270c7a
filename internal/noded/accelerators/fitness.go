package accelerators

import (
	"errors"
	"fmt"
	"strings"

	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// Name gives the GPUs that a node found the addresses of those that it is to have. Both are in the order of their PCI
// addresses; where their numbers or the CPUs that they are near to differ, it cannot be said which is which, and none gets
// an address.
func Name(found []protocol.GPUFacts, expected []protocol.GPU) {
	if len(found) != len(expected) {
		return
	}
	for i := range found {
		if found[i].CPUs != "" && expected[i].CPUs != "" && found[i].CPUs != expected[i].CPUs {
			return
		}
	}
	for i := range found {
		found[i].Address = expected[i].Address
	}
}

// Missing says in words which GPUs a node should have and does not see; nil if it sees them all. Those whose driver its
// image does not have were not asked for: admission would have refused the image.
func Missing(found []protocol.GPUFacts, expected []protocol.GPU) error {
	var wrong []string
	if len(found) < len(expected) {
		wrong = append(wrong, fmt.Sprintf("the machine has %s and %s on the PCI bus", words.Count(len(expected), "GPU"),
			isAre(len(found))))
	}
	for i, g := range found {
		switch {
		case g.Lacks != "":
		case g.Driver == "":
			wrong = append(wrong, fmt.Sprintf("%s has no driver", name(g, i)))
		case g.Device == "":
			wrong = append(wrong, fmt.Sprintf("the driver %s does not have %s", g.Driver, name(g, i)))
		}
	}
	return joined(wrong)
}

// Silent says in words which of NVIDIA's GPUs are not among those that answered; nil if none.
func Silent(found []protocol.GPUFacts, answered map[string]int) error {
	var wrong []string
	for i, g := range found {
		if _, ok := answered[g.PCI]; !ok && g.Driver == "nvidia" {
			wrong = append(wrong, name(g, i)+" does not answer its driver")
		}
	}
	return joined(wrong)
}

// name is a GPU as a message has it: "gpu3 (0000:5d:00.0, NVIDIA A40)".
func name(g protocol.GPUFacts, index int) string {
	text := g.PCI
	if g.Model != "" {
		text += ", " + g.Model
	}
	return fmt.Sprintf("gpu%d (%s)", index, text)
}

func isAre(n int) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "only 1 is"
	}
	return fmt.Sprintf("only %d are", n)
}

func joined(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}
