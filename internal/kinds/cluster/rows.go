// Package cluster keeps clusters: what their owners want, how far that is, and when they are there.
//
// What enters: intent from the API, phases from the engine. What leaves: rows.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kit/wrap"
	"muster/internal/place/elastic"
	"muster/internal/price"
	"muster/internal/spec"
)

// Cluster is what a tenant owns.
type Cluster struct {
	core.Life
	Term
	ID         string
	Project    string
	Name       string
	Spec       spec.Cluster // resolved
	Image      string       // digest, chosen at admission
	Desired    core.Desired
	Generation int64 // of Spec; every accepted change adds one
	Reached    int64 // the newest generation that was wholly ready
	Revision   int64 // of what its agents are told
	DrainFor   time.Duration
	Credential core.Secret
	Receipt    *Receipt
	Segment    int    // its number at the site, from 1: its nodes' MACs are made from it
	Short      string // why missing nodes cannot come now; "" when they can
	// Targets says how many nodes the engine wants of each elastic queue now; a queue that is not in it has its min.
	Targets map[string]int
	// Learned is what is known of each elastic queue, whatever nodes it has now.
	Learned   map[string]elastic.Learned
	PauseWait time.Duration // how long jobs may run on when it pauses; UntilJobsEnd: as long as they take
	// KeepsMemory says that its nodes are to sleep while it is paused, with all that runs on them.
	KeepsMemory bool
	Snapshot    string // ID of the snapshot that it was made from; "" for most
	Held        int64  // bytes that it held when it was paused last
	Rollout     Rollout
	Warned      time.Duration // how long before its end its users were last warned; 0: not yet
	CreatedAt   time.Time
	CreatedBy   string
	HomeTerms   price.Terms // only written, by Add; the meter keeps them
}

// Receipt is the proof of a cluster's end.
type Receipt struct {
	Machines []string `json:"machines"` // every machine that was given back
	// Released is how each whole machine was: switched off, its disks erased and read back.
	Released []Released `json:"released,omitempty"`
	// Guests are those of the machines that were parts of others. Their memory and disks went with them.
	Guests  []host.GuestEnd `json:"guests,omitempty"`
	Seconds float64         `json:"seconds"` // from creation to the proof
	At      time.Time       `json:"at"`      // when nothing was left
}

// Released is a machine with the receipt of its release.
type Released struct {
	Machine string          `json:"machine"`
	Release machine.Release `json:"release"`
}

// Stands is its phase with the reason, where there is one.
func (c Cluster) Stands() string {
	if c.Reason == "" {
		return string(c.Phase)
	}
	return string(c.Phase) + ", " + c.Reason
}

// Wants is how many nodes of a queue there are to be now: none of a cluster that is to pause or to go.
func (c Cluster) Wants(q spec.Queue) int {
	if c.Desired == ToPause || c.Desired == core.ToDelete {
		return 0
	}
	return min(max(*q.Min, c.Targets[q.Name]), *q.Max)
}

// WantsInAll is how many nodes all queues are to have.
func (c Cluster) WantsInAll() (n int) {
	for _, q := range c.Spec.Queues {
		n += c.Wants(q)
	}
	return n
}

const columns = `id, project, name, spec, image, desired, generation, reached, revision, drain_for, credential, receipt,
	segment, short, targets, learned, pause_wait, keeps_memory, held, snapshot, created_at, created_by, starts_at, ends_at, lead,
	warned, ` + rolloutColumns + `, ` + core.LifeColumns

func scan(r core.Scanner) (c Cluster, err error) {
	var key string
	fields := []any{&c.ID, &c.Project, &c.Name, core.JSON(&c.Spec), &c.Image, &c.Desired, &c.Generation, &c.Reached, &c.Revision,
		core.Span(&c.DrainFor, time.Millisecond), &key, core.JSON(&c.Receipt), &c.Segment, &c.Short, core.JSON(&c.Targets),
		core.JSON(&c.Learned), core.Span(&c.PauseWait, time.Millisecond), &c.KeepsMemory, &c.Held, &c.Snapshot,
		core.Time(&c.CreatedAt), &c.CreatedBy}
	fields = slices.Concat(fields, c.Term.fields(), []any{core.Span(&c.Warned, time.Millisecond)}, c.Rollout.fields(), c.Fields())
	err = r.Scan(fields...)
	if c.PauseWait < 0 {
		c.PauseWait = UntilJobsEnd
	}
	c.Credential = core.Sealed(credential(), c.ID, key)
	return c, wrap.Errorf(err, "row of cluster %s", c.ID)
}

// maxSegment is the last segment number: it has two bytes in a MAC.
const maxSegment = 1<<16 - 1

// freeSegment is the lowest number that no living cluster has. Of two transactions that choose the same, the index
// lets one pass, and the other runs again.
func freeSegment(ctx context.Context, tx *core.Tx) (int, error) {
	used, err := core.List(ctx, tx, core.Value[int], `SELECT segment FROM cluster WHERE phase <> 'deleted' AND segment > 0 ORDER BY segment`)
	if err != nil {
		return 0, fmt.Errorf("find a free segment: %w", err)
	}
	free := 1
	for _, n := range used {
		if n == free {
			free++
		}
	}
	if free > maxSegment {
		return 0, fmt.Errorf("all %d segments are in use", maxSegment)
	}
	return free, nil
}

// Add stores a new cluster in phase pending, generation 1. core.ErrExists if the project has one of that name.
func Add(ctx context.Context, tx *core.Tx, c Cluster) error {
	key, err := tx.Seal(ctx, credential(), c.ID, c.Credential)
	if err != nil {
		return err
	}
	segment, err := freeSegment(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO cluster (id, project, name, spec, image, desired, generation, credential, segment,
		created_at, created_by, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, now_ms(), $9, $10, now_ms(), now_ms())`,
		c.ID, c.Project, c.Name, core.JSON(c.Spec), c.Image, string(core.Present), key, segment, c.CreatedBy,
		string(core.Pending))
	if core.Taken(err) && !tx.LostRace(err) {
		return fmt.Errorf("cluster %s in project %s: %w", c.Name, c.Project, core.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add cluster %s: %w", c.Name, err)
	}
	home := price.Usage{Subject: c.ID, Kind: price.Home, Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
		State: price.Stored, Terms: c.HomeTerms}
	return meter.Begin(ctx, tx, home, "cluster")
}

// List lists those of a project ("" for all) that are not deleted, by name.
func List(ctx context.Context, tx *core.Tx, project string) ([]Cluster, error) {
	clusters, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM cluster
		WHERE phase <> 'deleted' AND ($1 = '' OR project = $1) ORDER BY name, project`, project)
	return clusters, wrap.Errorf(err, "list clusters")
}

// Count is how many clusters a project has that are not deleted.
func Count(ctx context.Context, tx *core.Tx, project string) (n int, err error) {
	err = tx.Row(ctx, `SELECT COUNT(*) FROM cluster WHERE project = $1 AND phase <> 'deleted'`, project).Scan(&n)
	return n, wrap.Errorf(err, "count clusters")
}

// Get finds a cluster by ID, deleted or not.
func Get(ctx context.Context, tx *core.Tx, id string) (Cluster, error) {
	c, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM cluster WHERE id = $1`, id)
	return c, wrap.Errorf(err, "cluster %s", id)
}

// Named finds a living cluster by its name.
func Named(ctx context.Context, tx *core.Tx, project, name string) (Cluster, error) {
	c, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM cluster
		WHERE project = $1 AND name = $2 AND phase <> 'deleted'`, project, name)
	return c, wrap.Errorf(err, "cluster %s", name)
}

// AllNamed lists the living clusters of this name, of all projects.
func AllNamed(ctx context.Context, tx *core.Tx, name string) ([]Cluster, error) {
	clusters, err := core.List(ctx, tx, scan, namedQuery, name)
	return clusters, wrap.Errorf(err, "clusters named %s", name)
}

const namedQuery = `SELECT ` + columns + ` FROM cluster WHERE name = $1 AND phase <> 'deleted' ORDER BY project`

// Admits says whether the cluster's file lets a member of its project in: all of them, unless it names some. Who made it
// may always come.
func (c Cluster) Admits(person string) bool {
	return c.Spec.Access == nil || len(c.Spec.Access.Users) == 0 || person == c.CreatedBy ||
		slices.Contains(c.Spec.Access.Users, person)
}

// Lock makes every other writer of this cluster's intent wait until the transaction ends. A View, which cannot
// write, needs no lock and takes none.
func Lock(ctx context.Context, tx *core.Tx, id string) error {
	if tx.ReadOnly() {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE cluster SET generation = generation WHERE id = $1`, id)
	return wrap.Errorf(err, "lock cluster %s", id)
}

// ChangeSpec writes a new intent as the next generation, which it returns, and wakes the cluster.
func ChangeSpec(ctx context.Context, tx *core.Tx, id string, s spec.Cluster, drainFor time.Duration) (int64, error) {
	var generation int64
	err := tx.Row(ctx, `UPDATE cluster SET spec = $1, drain_for = $2, generation = generation + 1, revision = revision + 1,
		`+core.Woken+`
		WHERE id = $3 RETURNING generation`, core.JSON(s), drainFor.Milliseconds(), id).Scan(&generation)
	return generation, wrap.Errorf(err, "change cluster %s", id)
}

// SetTargets writes how many nodes each elastic queue is to have now, and what was learned of it, and wakes the cluster.
func SetTargets(ctx context.Context, tx *core.Tx, id string, targets map[string]int, learned map[string]elastic.Learned) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET targets = $1, learned = $2, `+core.Woken+` WHERE id = $3`, core.JSON(targets),
		core.JSON(learned), id)
	return wrap.Errorf(err, "set targets of cluster %s", id)
}

// WantPaused asks that a cluster gives its machines back and keeps its state, and wakes it. Running jobs are queued
// again at once; see PausePatiently. Nothing changes for one that is to be deleted.
func WantPaused(ctx context.Context, tx *core.Tx, id string) error {
	return want(ctx, tx, id, core.Present, ToPause)
}

// WantPresent asks that a paused cluster comes back, and wakes it. Nothing changes for one that is to be deleted.
func WantPresent(ctx context.Context, tx *core.Tx, id string) error {
	return want(ctx, tx, id, ToPause, core.Present)
}

func want(ctx context.Context, tx *core.Tx, id string, from, to core.Desired) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET desired = $1, pause_wait = 0, keeps_memory = 0, `+core.Woken+
		` WHERE id = $2 AND desired = $3`, string(to), id, string(from))
	return wrap.Errorf(err, "make cluster %s %s", id, to)
}

// WantDeleted asks for a cluster's end and wakes it.
func WantDeleted(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET desired = $1, `+core.Woken+` WHERE id = $2`, string(core.ToDelete), id)
	return wrap.Errorf(err, "delete cluster %s", id)
}

// ReachGeneration records that a generation was wholly ready.
func ReachGeneration(ctx context.Context, tx *core.Tx, id string, generation int64) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET reached = $1 WHERE id = $2`, generation, id)
	return wrap.Errorf(err, "reach generation %d of cluster %s", generation, id)
}

// SetShortage records why missing nodes cannot come now ("" when they can), with an event when that is news.
func SetShortage(ctx context.Context, tx *core.Tx, c Cluster, why string) error {
	if c.Short == why {
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE cluster SET short = $1 WHERE id = $2`, why, c.ID); err != nil {
		return fmt.Errorf("record what cluster %s lacks: %w", c.ID, err)
	}
	if why != "" {
		tx.Log(core.Event{Type: "cluster.short", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: why})
	}
	return nil
}

// Inform gives what the cluster's agents are told a new revision.
func Inform(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET revision = revision + 1 WHERE id = $1`, id)
	return wrap.Errorf(err, "inform cluster %s", id)
}

// TellHead is Inform for the head's agent alone.
func TellHead(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET news = news + 1 WHERE cluster_id = $1 AND role = 'head' AND phase <> 'gone'`, id)
	return wrap.Errorf(err, "tell the head of cluster %s", id)
}

// InformProject is Inform for the living clusters of a project.
func InformProject(ctx context.Context, tx *core.Tx, project string) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET revision = revision + 1 WHERE phase <> 'deleted' AND project = $1`, project)
	return wrap.Errorf(err, "inform clusters of project %s", project)
}

// InformAll is Inform for every living cluster.
func InformAll(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET revision = revision + 1 WHERE phase <> 'deleted'`)
	return wrap.Errorf(err, "inform clusters")
}

// SaveReceipt writes the proof of a cluster's end and drops its secret.
func SaveReceipt(ctx context.Context, tx *core.Tx, id string, r Receipt) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET receipt = $1, credential = '' WHERE id = $2`, core.JSON(r), id)
	return wrap.Errorf(err, "save receipt of cluster %s", id)
}

// Seat is the fixed place of a node's name in its cluster.
type Seat struct {
	Name string
	Slot int
}

// Seats lists a cluster's seats, taken or not, by slot.
func Seats(ctx context.Context, tx *core.Tx, cluster string) ([]Seat, error) {
	scan := core.Fields(func(s *Seat) []any { return []any{&s.Name, &s.Slot} })
	seats, err := core.List(ctx, tx, scan, `SELECT name, slot FROM node_slot WHERE cluster_id = $1 ORDER BY slot`, cluster)
	return seats, wrap.Errorf(err, "list seats of cluster %s", cluster)
}

// AddSeat gives a name its slot for the cluster's life.
func AddSeat(ctx context.Context, tx *core.Tx, cluster string, s Seat) error {
	_, err := tx.Exec(ctx, `INSERT INTO node_slot (cluster_id, name, slot) VALUES ($1, $2, $3)`, cluster, s.Name, s.Slot)
	return wrap.Errorf(err, "seat %s in cluster %s", s.Name, cluster)
}

// Revisions tells, for every living cluster, the revision of what its agents are told.
func Revisions(ctx context.Context, tx *core.Tx) (map[string]int64, error) {
	all, err := core.Pairs[string, int64](ctx, tx, `SELECT id, revision FROM cluster WHERE phase <> 'deleted'`)
	return all, wrap.Errorf(err, "list revisions")
}

// ChangeCredential gives a cluster's daemons another key to know one another by, which its agents are told.
func ChangeCredential(ctx context.Context, tx *core.Tx, cluster string, key core.Secret) error {
	box, err := tx.Seal(ctx, credential(), cluster, key)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE cluster SET credential = $1, credential_at = now_ms(), revision = revision + 1 WHERE id = $2`,
		box, cluster)
	return wrap.Errorf(err, "change the credential of cluster %s", cluster)
}

// CredentialAt is when a cluster got its credential.
func CredentialAt(ctx context.Context, tx *core.Tx, cluster string) (at time.Time, err error) {
	err = tx.Row(ctx, `SELECT CASE WHEN credential_at = 0 THEN created_at ELSE credential_at END FROM cluster WHERE id = $1`, cluster).
		Scan(core.Time(&at))
	return at, wrap.Errorf(err, "look at the credential of cluster %s", cluster)
}
