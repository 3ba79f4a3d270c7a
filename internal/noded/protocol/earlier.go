package protocol

import "encoding/json"

// Agents of versions that knew one scheduler only run on when a controller is upgraded, until their nodes boot again. What
// follows is what they are told, and what they say, in the place of what stands beside it.

// Such agents run the CheckpointHook when they hear of PauseBegins, and report it as a check of that name.

// ForEarlier is the part of a Config for agents of such versions.
type ForEarlier struct {
	Key   []byte `json:"munge_key,omitempty"` // the Credential
	Plain bool   `json:"plain,omitempty"`     // the scheduler knows of no jobs
}

// Earlier is the part of a Report from agents of such versions.
type Earlier struct {
	Said json.RawMessage `json:"slurm,omitempty"` // in the place of Scheduler
}
