package life

import (
	"muster/internal/core"
)

// Causes of failures.
const (
	CauseDeadline   core.Cause = "deadline"   // a phase lasted too long
	CauseBoot       core.Cause = "boot"       // it came to nothing, more than once
	CauseStopped    core.Cause = "stopped"    // a node ended by itself
	CauseAcceptance core.Cause = "acceptance" // a node did worse in its tests than its class does
	CauseLost       core.Cause = "lost"       // a node's agent was silent, or what runs on it was not well
	CauseMachine    core.Cause = "machine"    // the machine under a node was taken out of service
	CauseInspection core.Cause = "inspection" // a machine's tests or the erasure of its disks
	CauseSuspect    core.Cause = "suspect"    // a machine on which a node failed
	CauseNodes      core.Cause = "nodes"      // a cluster lacks nodes
)
