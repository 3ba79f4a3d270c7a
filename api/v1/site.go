package v1

import "time"

// Entry of the audit log: who did what, or tried to.
type Entry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Person  string    `json:"person"`
	Token   string    `json:"token,omitempty" doc:"ID of the token or login; absent for an SSH key"`
	Door    Door      `json:"door" enum:"api,console,ssh,web"`
	Action  string    `json:"action" doc:"an operation of the API, or a login at the gateway or web door"`
	Project string    `json:"project,omitempty"`
	Object  string    `json:"object,omitempty" doc:"the object of the action, as it was named"`
	Outcome string    `json:"outcome" doc:"an HTTP status, or how a session ended"`
	Remote  string    `json:"remote,omitempty" doc:"address it came from"`
	Request string    `json:"request,omitempty"`
}

// ListAuditInput is what ListAudit takes.
type ListAuditInput struct {
	Person  string    `query:"person" doc:"only entries of this person" maxLength:"32"`
	Project string    `query:"project" doc:"only entries of this project" maxLength:"63"`
	Action  string    `query:"action" doc:"only entries of this operation, or of what is done at a door, such as begin-session" maxLength:"64"`
	Object  string    `query:"object" doc:"only entries of what was done to this, as the log names it" maxLength:"200"`
	Show    string    `query:"show" default:"all" enum:"all,acts,refused" doc:"acts: without what only read and was allowed; refused: only what was"`
	Since   time.Time `query:"since" doc:"RFC 3339"`
	Until   time.Time `query:"until" doc:"RFC 3339; only entries of before"`
	Limit   int       `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor  string    `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}

// Class is a name for machines alike, with what there is of it.
type Class struct {
	Name     string   `json:"name"`
	Select   []string `json:"select" doc:"conditions on a machine's facts; all must be true"`
	Price    string   `json:"price,omitempty" doc:"per node and hour"`
	Machines int      `json:"machines"`
	Free     int      `json:"free" doc:"for hypervisors: those with room for one more node of the class's default size"`
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
	Drivers []string  `json:"drivers" doc:"drivers for GPUs and HCAs that it has"`
	UsedBy  []string  `json:"used_by" doc:"clusters that you may see whose nodes are to boot it, or were last all ready with it, as PROJECT/NAME; the first 100 by name"`
}

// Site is what the controller says of itself.
type Site struct {
	Site     string `json:"site"`
	Version  string `json:"version"`
	Identity string `json:"identity" doc:"who the token says you are"`
	Operator bool   `json:"operator,omitempty" doc:"you are an operator of the site"`
	Project  string `json:"project,omitempty" doc:"the project of your clusters whose file names none; absent: the file must name one"`

	Roles     map[string]Role `json:"roles" doc:"your role in each project"`
	Token     string          `json:"token" doc:"ID of the token that you hold"`
	Scope     Scope           `json:"scope" doc:"read: the token cannot change anything or log in to clusters"`
	Only      string          `json:"only,omitempty" doc:"the only project that the token is for"`
	ExpiresAt time.Time       `json:"expires_at,omitzero" doc:"when the token ends"`
	Web       *Web            `json:"web,omitempty" doc:"the web door, if there is one"`
}

// Sighting says to who watches that something of a cluster's nodes or jobs has changed without an event. Its message is of type
// "seen", and has no number.
type Sighting struct {
	ClusterID string    `json:"cluster_id"`
	Cluster   string    `json:"cluster"`
	Project   string    `json:"project"`
	At        time.Time `json:"at"`
}

// EventsInput says which events.
type EventsInput struct {
	After       int64  `query:"after" minimum:"0" doc:"events with higher numbers; the next of a page goes here"`
	Newest      bool   `query:"newest" doc:"list the newest first; with watch: send those that happen from now on, whatever after says"`
	Before      int64  `query:"before" minimum:"0" doc:"events with lower numbers, not with watch; the next of a page of the newest goes here; 0: any"`
	Limit       int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
	Watch       bool   `query:"watch" doc:"keep the connection and send events as they happen, as server-sent events"`
	Seen        bool   `query:"seen" doc:"with watch: also send a message of type seen when something of a cluster's nodes or jobs has changed without an event"`
	LastEventID string `header:"Last-Event-ID" doc:"like after; sent by clients that reconnect" pattern:"^[0-9]*$" maxLength:"18"`
}

// ListEventsInput is what ListEvents takes.
type ListEventsInput struct {
	Project string `query:"project" doc:"only events of this project" maxLength:"63"`
	Machine string `query:"machine" doc:"only events of the machine of this name" maxLength:"63"`
	EventsInput
}

// ListClusterEventsInput is what ListClusterEvents takes.
type ListClusterEventsInput struct {
	ClusterRef
	EventsInput
}

// Calendar says what is free, held and reserved.
type Calendar struct {
	Now     time.Time       `json:"now" doc:"the site's time"`
	From    time.Time       `json:"from"`
	Until   time.Time       `json:"until" doc:"earlier than asked for where very much changes: go on from there"`
	Classes []ClassCalendar `json:"classes"`
}

// ClassCalendar is one class's. Classes may overlap: a machine counts in each of its own.
type ClassCalendar struct {
	Name     string `json:"name"`
	Machines int    `json:"machines" doc:"machines in service: neither in maintenance nor in quarantine"`
	Slots    []Slot `json:"slots" doc:"periods without gaps; nothing changes within one"`
}

// Slot is a time in which nothing changes.
type Slot struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Free     int             `json:"free"`
	Held     int             `json:"held" doc:"in use by nodes, or being prepared for the next"`
	Reserved int             `json:"reserved" doc:"for clusters that start later, and for nodes that clusters lack"`
	By       []CalendarShare `json:"by"`
}

// CalendarShare is one cluster's part of a class.
type CalendarShare struct {
	Cluster   string `json:"cluster" doc:"name of the cluster; (being prepared) for machines between two clusters, (others) for those with the smallest shares"`
	ClusterID string `json:"cluster_id,omitempty" doc:"of a cluster that you may see"`
	Project   string `json:"project,omitempty" doc:"its project"`
	Machines  int    `json:"machines"`
	Reserved  bool   `json:"reserved,omitempty" doc:"the cluster has not started yet"`
}

// GetCalendarInput is what GetCalendar takes.
type GetCalendarInput struct {
	Class string `query:"class" doc:"only this class" maxLength:"63"`
	From  string `query:"from" doc:"start, in RFC 3339 or as +2d from now; default: now" maxLength:"40"`
	To    string `query:"to" doc:"end, in RFC 3339 or as +2d from now; default: a week after from" maxLength:"40"`
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
	Name       string      `json:"name" doc:"the name, as rotate-secrets takes it" example:"agents-ca"`
	ID         string      `json:"id" doc:"changes with the value, and does not reveal it"`
	Generation int64       `json:"generation,omitempty"`
	State      SecretState `json:"state" enum:"in use,next,former"`
	Since      time.Time   `json:"since" doc:"when it was made"`
	Waits      string      `json:"waits,omitempty" doc:"what its next step waits for, or until when"`
}

// Secrets are those of the site.
type Secrets struct {
	Items []SecretView `json:"items"`
}

// SecretRotation is what is to be rotated, and how.
type SecretRotation struct {
	Names    []string `json:"names" doc:"names from list-secrets; root: all signing keys; munge: those of all clusters; all" minItems:"1" maxItems:"1000"`
	Announce string   `json:"announce,omitempty" doc:"the least time that the new one is trusted before it signs, as in 10m or 7d; default: depends on the secret" maxLength:"20"`
	Keep     string   `json:"keep,omitempty" doc:"the least time that the old one is trusted after that, as in 10m or 7d" maxLength:"20"`
	Deadline string   `json:"deadline,omitempty" doc:"how long to wait at most for those who depend on the old one; default 30d" maxLength:"20"`
	Now      bool     `json:"now,omitempty" doc:"refuse the old ones at once, whatever depends on them"`
}

// RotateSecretsInput is what RotateSecrets takes.
type RotateSecretsInput struct {
	Body SecretRotation
}

// Readiness is whether a controller is of use now.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks" doc:"database, engine, agents: the controller works only if all three do"`
}

// Moment is how many there were of everything at one time.
type Moment struct {
	At       time.Time      `json:"at"`
	Clusters map[string]int `json:"clusters" doc:"by phase"`
	Nodes    map[string]int `json:"nodes" doc:"by phase"`
	Machines map[string]int `json:"machines" doc:"by phase"`
	Running  int            `json:"running_jobs"`
	Pending  int            `json:"pending_jobs"`
	Due      int            `json:"due" doc:"objects whose work had not begun"`
	Lag      float64        `json:"lag_seconds" doc:"how late the oldest of that work was, at most in the step"`
}

// ListMomentsInput says how close they are.
type ListMomentsInput struct {
	Step int `query:"step" default:"5" minimum:"1" maximum:"60" doc:"minutes from one to the next"`
}

// Alarm is something that a person should look at.
type Alarm struct {
	ID           string           `json:"id" doc:"NAME, or NAME:OF where several may have one name; it stays as long as the alarm stands" example:"machines-quarantined"`
	Name         string           `json:"name" doc:"stable; programs may branch on it"`
	Text         string           `json:"text" doc:"what is wrong and where to look, as text for people"`
	Since        *time.Time       `json:"since,omitempty" doc:"when the newest of what it tells of came; absent: not known"`
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty" doc:"absent: nobody has said that they know of all that it tells of"`
}

// Acknowledgement says who knows of an alarm.
type Acknowledgement struct {
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until" doc:"from then on it counts no more"`
	Note  string    `json:"note,omitempty"`
}

// AcknowledgeAlarmInput says that the caller knows of an alarm.
type AcknowledgeAlarmInput struct {
	Alarm string `path:"alarm" maxLength:"200" doc:"ID of one that stands"`
	Body  AcknowledgeAlarmBody
}

// AcknowledgeAlarmBody says for how long, and why.
type AcknowledgeAlarmBody struct {
	Note  string     `json:"note,omitempty" maxLength:"500" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"for other operators, in one line"`
	For   string     `json:"for,omitempty" maxLength:"20" doc:"how long it counts, up to 30d (default: 1d); 0s takes it back"`
	Since *time.Time `json:"since,omitempty" doc:"of the alarm as the caller has seen it: if it tells of something newer, that is a conflict"`
}

// Status is how the site is.
type Status struct {
	Readiness
	Site       string         `json:"site"`
	Version    string         `json:"version"`
	Controller string         `json:"controller" doc:"the controller that answered"`
	Since      time.Time      `json:"since" doc:"when it began"`
	Clusters   map[string]int `json:"clusters" doc:"how many, by phase"`
	Nodes      map[string]int `json:"nodes" doc:"how many, by phase"`
	Machines   map[string]int `json:"machines" doc:"how many, by phase"`
	LocalRoot  string         `json:"local_root" doc:"which user of the controller's host root of a node there is"`
	Due        int            `json:"due" doc:"number of clusters, nodes, machines and the like that wait for a controller to take their next step"`
	Lag        float64        `json:"lag" doc:"seconds that the oldest of them has waited"`
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
	APIDoor     Door = "api"
	ConsoleDoor Door = "console"
	SSHDoor     Door = "ssh"
	WebDoor     Door = "web"
)
