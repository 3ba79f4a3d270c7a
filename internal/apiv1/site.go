package apiv1

import (
	"muster/internal/door/access"
	"muster/internal/noded/protocol"
	"time"
)

// Entry of the audit log: who did what, or tried to.
type Entry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Person  string    `json:"person"`
	Token   string    `json:"token,omitempty" doc:"ID of the token or login; absent for an SSH key"`
	Door    Door      `json:"door" enum:"api,ssh,web"`
	Action  string    `json:"action" doc:"an operation of the API, or what was done at the door"`
	Project string    `json:"project,omitempty"`
	Object  string    `json:"object,omitempty" doc:"what it was done to, as it was named"`
	Outcome string    `json:"outcome" doc:"an HTTP status, or how it ended"`
	Remote  string    `json:"remote,omitempty" doc:"address it came from"`
	Request string    `json:"request,omitempty"`
}

// ListAuditInput is what ListAudit takes.
type ListAuditInput struct {
	Person  string    `query:"person" doc:"only theirs" maxLength:"32"`
	Project string    `query:"project" doc:"only what was done in it" maxLength:"63"`
	Since   time.Time `query:"since" doc:"RFC 3339"`
	Limit   int       `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor  string    `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}

// Class is a name for machines alike, with what there is of it.
type Class struct {
	Name     string   `json:"name"`
	Select   []string `json:"select" doc:"conditions on a machine's facts; all must hold"`
	Price    string   `json:"price,omitempty" doc:"per node and hour"`
	Machines int      `json:"machines"`
	Free     int      `json:"free" doc:"of hypervisors: those with room for one more node of the usual size"`
	Default  string   `json:"default,omitempty" doc:"what it is the default of: queues, head"`
}

// Image is an environment that nodes can boot.
type Image struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Arch    string    `json:"arch"`
	Size    int64     `json:"size" doc:"bytes"`
	Created time.Time `json:"created"`
	Summary string    `json:"summary,omitempty"`
	Drivers []string  `json:"drivers" doc:"of GPUs and HCAs, that it carries"`
}

// Site is what the controller says of itself.
type Site struct {
	Site     string `json:"site"`
	Version  string `json:"version"`
	Identity string `json:"identity" doc:"who the token says you are"`
	Operator bool   `json:"operator,omitempty" doc:"you run the site"`
	Project  string `json:"project,omitempty" doc:"that clusters of yours are in whose file names none; absent: name one"`

	Roles     map[string]access.Role `json:"roles" doc:"what you are, by project"`
	Token     string                 `json:"token" doc:"ID of the token that you hold"`
	Scope     access.Scope           `json:"scope" doc:"read: the token changes nothing and enters nowhere"`
	Only      string                 `json:"only,omitempty" doc:"the one project that the token is for"`
	ExpiresAt time.Time              `json:"expires_at,omitzero" doc:"when the token ends"`
	Web       *Web                   `json:"web,omitempty" doc:"the door for web apps, if there is one"`
}

// ListEventsInput says which events.
type ListEventsInput struct {
	After       int64  `query:"after" minimum:"0" doc:"events with higher numbers"`
	Limit       int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
	Watch       bool   `query:"watch" doc:"keep the connection and send events as they happen, as server-sent events"`
	LastEventID string `header:"Last-Event-ID" doc:"as after; sent by clients that come back" pattern:"^[0-9]*$" maxLength:"18"`
}

// ListClusterEventsInput is what ListClusterEvents takes.
type ListClusterEventsInput struct {
	ClusterRef
	ListEventsInput
}

// Calendar says what is free, held and reserved.
type Calendar struct {
	Now     time.Time       `json:"now" doc:"the site's clock"`
	From    time.Time       `json:"from"`
	Until   time.Time       `json:"until"`
	Classes []ClassCalendar `json:"classes"`
}

// ClassCalendar is one class's. Classes may overlap: a machine counts in each of its own.
type ClassCalendar struct {
	Name     string `json:"name"`
	Machines int    `json:"machines" doc:"in service: neither in maintenance nor in quarantine"`
	Slots    []Slot `json:"slots" doc:"without gaps; nothing changes within one"`
}

// Slot is a time in which nothing changes.
type Slot struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Free     int             `json:"free"`
	Held     int             `json:"held" doc:"by nodes that are there, or being prepared for the next"`
	Reserved int             `json:"reserved" doc:"by clusters that are to come, and nodes that clusters lack"`
	By       []CalendarShare `json:"by"`
}

// CalendarShare is one cluster's part of a class.
type CalendarShare struct {
	Cluster  string `json:"cluster" doc:"its name; (being prepared) for machines between two"`
	Machines int    `json:"machines"`
	Reserved bool   `json:"reserved,omitempty" doc:"not there yet"`
}

// GetCalendarInput is what GetCalendar takes.
type GetCalendarInput struct {
	Class string `query:"class" doc:"only this one" maxLength:"63"`
	From  string `query:"from" doc:"default: now. RFC 3339, or +2d from now" maxLength:"40"`
	To    string `query:"to" doc:"default: a week after from. RFC 3339, or +2d from now" maxLength:"40"`
}

// SecretState is what a secret is there for.
type SecretState string

// The states.
const (
	SecretInUse  SecretState = "in use"
	SecretNext   SecretState = "next"   // believed, but nothing is signed with it yet
	SecretFormer SecretState = "former" // believed still, but nothing is signed with it any more
)

// SecretView is a secret of the site, without its value.
type SecretView struct {
	Name       string      `json:"name" doc:"as rotate-secrets takes it" example:"agents-ca"`
	ID         string      `json:"id" doc:"changes with the value, and tells nothing of it"`
	Generation int64       `json:"generation,omitempty"`
	State      SecretState `json:"state" enum:"in use,next,former"`
	Since      time.Time   `json:"since" doc:"when it was made"`
	Waits      string      `json:"waits,omitempty" doc:"for whom, or until when, its next step waits"`
}

// Secrets are those of the site.
type Secrets struct {
	Items []SecretView `json:"items"`
}

// SecretRotation is what is to be rotated, and how.
type SecretRotation struct {
	Names    []string `json:"names" doc:"names of list-secrets; root: all that the site signs with; munge: of all clusters; all" minItems:"1" maxItems:"1000"`
	Announce string   `json:"announce,omitempty" doc:"how long the new one is believed before it signs, at the least, as in 10m or 7d; left out: as is right for each" maxLength:"20"`
	Keep     string   `json:"keep,omitempty" doc:"how long the old one is believed after that, at the least" maxLength:"20"`
	Deadline string   `json:"deadline,omitempty" doc:"after which waiting ends; 30d if left out" maxLength:"20"`
	Now      bool     `json:"now,omitempty" doc:"the old ones are refused at once, whatever depends on them"`
}

// RotateSecretsInput is what RotateSecrets takes.
type RotateSecretsInput struct {
	Body SecretRotation
}

// Readiness is whether a controller is of use now.
type Readiness struct {
	Ready  bool             `json:"ready"`
	Checks []protocol.Check `json:"checks" doc:"database, engine, agents: without one of them a controller is of no use"`
}

// Alarm is something that a person should look at.
type Alarm struct {
	Name string `json:"name" doc:"stable; programs may branch on it"`
	Text string `json:"text" doc:"what it is and where to look, for people"`
}

// Status is how the site is.
type Status struct {
	Readiness
	Site       string         `json:"site"`
	Version    string         `json:"version"`
	Controller string         `json:"controller" doc:"which replica answered"`
	Since      time.Time      `json:"since" doc:"when it began"`
	Clusters   map[string]int `json:"clusters" doc:"how many, by phase"`
	Nodes      map[string]int `json:"nodes" doc:"how many, by phase"`
	Machines   map[string]int `json:"machines" doc:"how many, by phase"`
	LocalRoot  string         `json:"local_root" doc:"who root of a node on the controller's host is for that host"`
	Due        int            `json:"due" doc:"clusters, nodes and machines that wait for a controller to take their next step"`
	Lag        float64        `json:"lag" doc:"seconds that the first of them has waited"`
	Alarms     []Alarm        `json:"alarms"`
}

// Event is one thing that happened, in words a user understands.
type Event struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Type      string    `json:"type"` // cluster.phase, node.phase, machine.phase, cluster.requested …
	Project   string    `json:"project,omitempty"`
	ClusterID string    `json:"cluster_id,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	Node      string    `json:"node,omitempty"`
	Machine   string    `json:"machine,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	Text      string    `json:"text"`
	Request   string    `json:"request,omitempty"` // whose doing it is; X-Request-Id of the API's answer
}

// Door is where somebody came in.
type Door string

// The doors.
const (
	APIDoor Door = "api"
	SSHDoor Door = "ssh"
	WebDoor Door = "web"
)
