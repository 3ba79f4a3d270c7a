// Package access says who may do what. It is one table of roles and actions, and pure functions over it: no I/O.
//
// What enters: a caller as the database has them (a person, their roles, the limits of their token), an action and a project.
// What leaves: yes or no. The API, the gateway and the web door ask here and nowhere else.
package access

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Role is what a person is to a project.
type Role string

// The roles of a project, from the one that may do most.
const (
	Owner  Role = "owner"  // decides who is in the project
	Member Role = "member" // has and uses clusters
	Viewer Role = "viewer" // looks
)

// Roles lists them.
func Roles() []Role { return []Role{Owner, Member, Viewer} }

// Action is what somebody wants to do.
type Action string

// The actions. Those of the first group need no project, those of the second are done to something that a project owns.
const (
	Be     Action = "be"     // look at one's own name, keys and tokens
	Keep   Action = "keep"   // change them
	Browse Action = "browse" // what the site offers: classes, images, the calendar, one's projects
	Survey Action = "survey" // look at the site's machines, networks and people
	Run    Action = "run"    // change them

	See    Action = "see"    // look at a project: clusters, events, cost
	Own    Action = "own"    // create, change and delete clusters
	Enter  Action = "enter"  // log in to clusters, open their web apps
	Govern Action = "govern" // say who is in the project
	Lead   Action = "lead"   // say what runs as any of its people
)

// Rule says who may do an action.
type Rule struct {
	Everybody bool   // who has a valid token or key
	Operators bool   // the site's operators, in any project
	Roles     []Role // in the project; the action needs one
	Changes   bool   // what tokens that only look do not do
	Wide      bool   // what tokens of one project do not do
}

// Rules is the matrix. Operators run the site and its projects; into a tenant's cluster they come only as that project's
// members, which takes an act that the audit shows.
func Rules() map[Action]Rule {
	return map[Action]Rule{
		Be:     {Everybody: true},
		Browse: {Everybody: true},
		Keep:   {Everybody: true, Changes: true, Wide: true},
		Survey: {Operators: true, Wide: true},
		Run:    {Operators: true, Changes: true, Wide: true},
		See:    {Operators: true, Roles: []Role{Owner, Member, Viewer}},
		Own:    {Operators: true, Roles: []Role{Owner, Member}, Changes: true},
		Enter:  {Roles: []Role{Owner, Member}, Changes: true},
		Govern: {Operators: true, Roles: []Role{Owner}, Changes: true},
		Lead:   {Roles: []Role{Owner}, Changes: true},
	}
}

// Scope is how much of what its owner may do a token carries.
type Scope string

// The scopes.
const (
	Whole    Scope = "all"  // whatever its owner may
	ReadOnly Scope = "read" // look only
)

// Scopes lists them.
func Scopes() []Scope { return []Scope{Whole, ReadOnly} }

// Caller is who asks, with what they hold.
type Caller struct {
	Name     string // the person
	Operator bool
	Roles    map[string]Role // by project
	Token    string          // ID of the token or login; "" for an SSH key
	Scope    Scope
	Project  string    // the only one that the token is for; "": all
	Until    time.Time // when the token ends; zero: never
}

// May says whether the caller may do that in a project; "" for actions that need none.
func (c Caller) May(action Action, project string) bool {
	rule := Rules()[action]
	if rule.Changes && c.Scope == ReadOnly {
		return false
	}
	if c.Project != "" && (rule.Wide || project != "" && project != c.Project) {
		return false
	}
	if len(rule.Roles) > 0 && project == "" {
		return false
	}
	return rule.Everybody || rule.Operators && c.Operator || slices.Contains(rule.Roles, c.Roles[project])
}

// Rights lists what the caller may do in a project.
func (c Caller) Rights(project string) []Action {
	return slices.DeleteFunc([]Action{See, Own, Enter, Govern, Lead}, func(a Action) bool { return !c.May(a, project) })
}

// Everywhere says whether the caller sees all projects, also those that they have no role in.
func (c Caller) Everywhere() bool { return c.Operator && c.Project == "" }

// Projects lists the projects in which the caller has a role and which the token is for, in order.
func (c Caller) Projects() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if c.Project == "" || name == c.Project {
			names = append(names, name)
		}
	}
	return names
}

// Named takes a reference apart: PROJECT/NAME, or NAME alone.
func Named(ref string) (project, name string) {
	project, name, qualified := strings.Cut(ref, "/")
	if !qualified {
		return "", ref
	}
	return project, name
}

// Choose finds what a reference may mean to the caller amongst things of several projects: PROJECT/NAME, or NAME alone. Those
// of one's own projects go first; operators know the others too. One is an answer, none or several are a question.
func Choose[T any](c Caller, ref string, all []T, of func(T) (project, name string)) []T {
	wanted, name := Named(ref)
	var own, other []T
	for _, one := range all {
		project, called := of(one)
		switch {
		case called != name || wanted != "" && project != wanted || !c.May(See, project):
		case slices.Contains(c.Projects(), project):
			own = append(own, one)
		default:
			other = append(other, one)
		}
	}
	if len(own) > 0 {
		return own
	}
	return other
}
