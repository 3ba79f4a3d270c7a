package noded

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/noded/protocol"
)

// hooks runs nothing but notes what it is to run, and how long that may take.
type hooks struct {
	fakeProcesses
	ran     string
	bounded bool
}

func (h *hooks) Run(ctx context.Context, argv ...string) ([]byte, error) {
	h.ran = strings.Join(argv, " ")
	_, h.bounded = ctx.Deadline()
	return nil, nil
}

func TestAHeadRunsTheHookOfItsImageIfItIsAProgram(t *testing.T) {
	for _, test := range []struct {
		name string
		mode os.FileMode // 0: there is none
		runs bool
	}{{"none", 0, false}, {"no program", 0o644, false}, {"a program", 0o755, true}} {
		t.Run(test.name, func(t *testing.T) {
			ran := &hooks{}
			n := &node{deps: deps{processes: ran, disk: testDisk(t)}}
			hook := n.deps.disk.path(protocol.CheckpointHook)
			if test.mode != 0 {
				must(t, os.MkdirAll(filepath.Dir(hook), 0o755))
				must(t, os.WriteFile(hook, []byte("#!/bin/sh\n"), test.mode))
			}
			outcome := n.checkpoint(t.Context())
			if !outcome.OK || (ran.ran == hook) != test.runs || strings.Contains(outcome.Text, "has no checkpoint hook") == test.runs || ran.bounded != test.runs {
				t.Errorf("%+v, ran %q, bounded %v", outcome, ran.ran, ran.bounded)
			}
		})
	}
}
