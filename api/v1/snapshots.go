package v1

import "time"

// Snapshot is a copy of what a cluster held.
type Snapshot struct {
	ID        string      `json:"id" doc:"never changes"`
	Name      string      `json:"name"`
	Project   string      `json:"project"`
	Cluster   string      `json:"cluster" doc:"name of the cluster that it is a copy of"`
	Phase     Phase       `json:"phase" words:"snapshot phases"`
	Reason    string      `json:"reason,omitempty" doc:"why it is in this phase"`
	Since     time.Time   `json:"since" doc:"when the phase began"`
	Bytes     int64       `json:"bytes,omitempty" doc:"its size in bytes, once saved"`
	Copied    int64       `json:"copied,omitempty" doc:"bytes copied so far, while it is being saved"`
	Spec      ClusterSpec `json:"spec" doc:"of the cluster as it was"`
	CreatedAt time.Time   `json:"created_at"`
	CreatedBy string      `json:"created_by"`
}

// SnapshotRef is a snapshot in a path.
type SnapshotRef struct {
	Snapshot string `path:"snapshot" doc:"name, PROJECT/NAME, or ID" maxLength:"127"`
}

// CreateSnapshotInput is what CreateSnapshot takes.
type CreateSnapshotInput struct {
	ClusterRef
	Body CreateSnapshotBody
}

// CreateSnapshotBody is the body of a CreateSnapshotInput.
type CreateSnapshotBody struct {
	Name string `json:"name,omitempty" doc:"default: the cluster's name with the time" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
}
