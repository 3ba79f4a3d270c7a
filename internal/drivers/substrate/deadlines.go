package substrate

import "time"

// Deadlines are how long phases of nodes and machines may last. They are generous: a busy host is slow, and to give up costs more
// than to wait.
type Deadlines struct {
	Attach        time.Duration // a node's network
	Boot          time.Duration // between two signs of life of a boot, until its agent answers
	Join          time.Duration // until its services run
	Test          time.Duration // until it has passed its test and its scheduler has it
	Silence       time.Duration // of the agent of a node that runs
	MaxLostShare  float64       // share of a place's nodes that may be lost at once and be believed of each
	FailureWindow time.Duration // how long a failure counts as one of those that came at once
	Forget        time.Duration // how long a released node may stand in its scheduler's list
	Halt          time.Duration // for the scheduler to stop before a pause
	KillGrace     time.Duration // for jobs that are ended at the drain's limit
	Move          time.Duration // of a guest to another host, while it runs, or of its memory to disk and back
	Inspection    time.Duration // between two signs of life of an inspection
	Quarantine    time.Duration // then a machine is inspected again by itself; doubles with every failure in a row
	Rest          time.Duration // between two looks at a free machine
	Idle          time.Duration // a hypervisor without guests, before it is a whole machine again
}
