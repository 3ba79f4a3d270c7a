package protocol

import "time"

// Inspection is what a machine that booted with duty inspect is to do: erase first, then look, then test.
type Inspection struct {
	// Erase asks to erase every local disk and to read back that it was.
	Erase bool `json:"erase"`
	// Tests are bounded by this time in all; what does not fit is left out and said so in its check.
	Within time.Duration `json:"within"`
}

// Findings is what a machine says of itself. While Done is false only Doing counts, which tells a person what goes on.
type Findings struct {
	Done   bool     `json:"done"`
	Doing  string   `json:"doing,omitempty"`
	Facts  []byte   `json:"facts,omitempty"`             // JSON of inventory.Facts, whose types the agent fills in
	Checks []Check  `json:"checks,omitempty" most:"64"`  // health checks: memory, disks, nics, cpu, bandwidth
	Erased []Erased `json:"erased,omitempty" most:"256"` // one a disk, if erasing was asked for
}

// Erased is the receipt of one disk.
type Erased struct {
	Disk   string `json:"disk"` // the kernel's name
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	Bytes  int64  `json:"bytes"`
	// "nvme sanitize: block erase", "nvme format: user data", "ata secure erase", "discard and zero", "overwrite"
	Method   string        `json:"method"`
	Tried    []string      `json:"tried,omitempty" most:"64"` // better methods that did not work, each with the reason
	Verified string        `json:"verified"`                  // how it was read back: "512 samples of 1 MiB read as zero"
	OK       bool          `json:"ok"`
	Error    string        `json:"error,omitempty"`
	Took     time.Duration `json:"took"`
}
