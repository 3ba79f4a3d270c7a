package v1

import "time"

// ExternalClusterState says whether an external cluster answers.
type ExternalClusterState string

// The states.
const (
	ExternalClusterNew    ExternalClusterState = "new"    // not looked at since it was registered or changed
	ExternalClusterOpen   ExternalClusterState = "open"   // answers
	ExternalClusterSilent ExternalClusterState = "silent" // does not
)

// Rules of an external cluster: who its people are there.
const (
	SameAccount   = "same"   // everybody under their own name
	SharedAccount = "shared" // all as one account
	ListedAccount = "listed" // everybody as the list says
)

// ExternalClusterSpec is what operators say of a cluster that Muster did not build.
type ExternalClusterSpec struct {
	Login    string                   `json:"login" doc:"HOST or HOST:PORT of its sshd" maxLength:"300" example:"arc.example.org"`
	HostCA   string                   `json:"host_ca,omitempty" doc:"the CA that signs its host keys, authorized_keys format; either this or host_keys" maxLength:"16384"`
	HostKeys []string                 `json:"host_keys,omitempty" doc:"its host keys, authorized_keys format" maxItems:"20"`
	Probe    string                   `json:"probe,omitempty" doc:"the account there that queries the queues" default:"muster" maxLength:"32"`
	Projects []ExternalClusterProject `json:"projects" doc:"projects whose owners and members may log in there; you see those that you may see" maxItems:"1000"`
	Accounts map[string]string        `json:"accounts,omitempty" doc:"for the rule listed: accounts by person; shown to operators"`
}

// ExternalClusterProject lets the owners and members of a project into an external cluster.
type ExternalClusterProject struct {
	Project string   `json:"project" maxLength:"63"`
	Queues  []string `json:"queues,omitempty" doc:"queues that they may use; absent: all" maxItems:"1000"`
	Rule    string   `json:"rule" enum:"same,shared,listed" doc:"same: all people have their own name; shared: all use one account; listed: each person has the account in accounts"`
	Account string   `json:"account,omitempty" doc:"the shared one" maxLength:"32"`
}

// SeenQueue is what a batch system tells of a queue.
type SeenQueue struct {
	Name    string `json:"name"`
	Up      bool   `json:"up"`                // runs jobs
	State   string `json:"state,omitempty"`   // as the batch system calls it
	Nodes   int    `json:"nodes"`             // that its jobs may run on
	Free    int    `json:"free"`              // with nothing on them
	Used    int    `json:"used"`              // with jobs; the rest is out of order, or taken out
	Running *int   `json:"running,omitempty"` // jobs; nil: not told
	Waiting *int   `json:"waiting,omitempty"`

	Cores     int `json:"cores,omitempty" doc:"of the smallest of its nodes; absent: not told"`
	MemoryMiB int `json:"memory_mib,omitempty" doc:"of the smallest of its nodes; absent: not told"`
}

// ExternalClusterQueue is what was seen of a queue.
type ExternalClusterQueue struct {
	SeenQueue
	Projects []string `json:"projects" doc:"projects that may use it, of those that you may see"`
}

// ExternalCluster is a cluster that Muster did not build, behind the same door.
type ExternalCluster struct {
	Name string `json:"name"`
	ExternalClusterSpec
	State     ExternalClusterState   `json:"state" enum:"new,open,silent" doc:"new: not asked since it was registered or changed; open: it answers; silent: it does not answer"`
	Since     time.Time              `json:"since,omitzero" doc:"when it stopped answering"`
	Reason    string                 `json:"reason,omitempty" doc:"why it is silent"`
	SeenAt    time.Time              `json:"seen_at,omitzero" doc:"when it last answered, and the queues were read"`
	System    string                 `json:"system,omitempty" doc:"the batch system" example:"Slurm 22.05.8"`
	Queues    []ExternalClusterQueue `json:"queues" doc:"queues open to projects that you may see"`
	CreatedAt time.Time              `json:"created_at"`
}

// ExternalClusterAuthority is what the sshd of an external cluster has to trust.
type ExternalClusterAuthority struct {
	PublicKey string `json:"public_key" doc:"authorized_keys format; for the file of sshd's TrustedUserCAKeys"`
}

// ExternalClusterRef is an external cluster in a path.
type ExternalClusterRef struct {
	ExternalCluster string `path:"external_cluster" doc:"name" maxLength:"63"`
}

// AddExternalClusterInput is what AddExternalCluster takes.
type AddExternalClusterInput struct {
	Body AddExternalClusterBody
}

// AddExternalClusterBody is the body of an AddExternalClusterInput.
type AddExternalClusterBody struct {
	Name string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
	ExternalClusterSpec
}

// ChangeExternalClusterInput is what ChangeExternalCluster takes.
type ChangeExternalClusterInput struct {
	ExternalClusterRef
	Body ExternalClusterSpec
}
