package gateway

import (
	"strings"
)

// login is what a user name says: who, perhaps, and where to.
type login struct {
	person string // "": the owner of the key
	ref    string // NAME or PROJECT/NAME; "": no possible name of a cluster
}

// maxName bounds the names that are looked at; the longest that can mean something is shorter.
const maxName = 200

// parseLogin reads [PERSON+]CLUSTER, where CLUSTER is NAME, PROJECT/NAME or NAME.PROJECT: scp takes what has a slash
// before its colon for a file. Any other text is a login without a place.
func parseLogin(user string) login {
	if len(user) > maxName {
		return login{}
	}
	person, rest, named := strings.Cut(user, "+")
	if !named {
		person, rest = "", user
	}
	if named && !isName(person) {
		return login{}
	}
	return login{person: person, ref: parseRef(rest)}
}

// parseRef reads NAME, PROJECT/NAME or NAME.PROJECT, as PROJECT/NAME or NAME; "" if it is none. Neither names of clusters
// nor those of projects have dots where a reference is meant by one.
func parseRef(text string) string {
	if project, name, qualified := strings.Cut(text, "/"); qualified {
		if isName(project) && isName(name) {
			return text
		}
		return ""
	}
	name, project, qualified := strings.Cut(text, ".")
	switch {
	case !isName(name) || qualified && !isName(project):
		return ""
	case qualified:
		return project + "/" + name
	}
	return name
}

// isName says whether text may be the name of a cluster, a project, a person or a node. Whether there is one, the database
// knows.
func isName(text string) bool {
	if text == "" || len(text) > 63 {
		return false
	}
	for i, r := range []byte(text) {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '_' && r != '.') {
			return false
		}
	}
	return true
}

// Zone is the domain under which the client's configuration knows all clusters.
const Zone = "muster"

// jump is a node behind a host name; node is "" for where one logs in.
type jump struct{ node, ref string }

// parseJump lists what a host name may mean, the likeliest first: NODE.CLUSTER, NODE.CLUSTER.PROJECT, CLUSTER,
// CLUSTER.PROJECT, each also with the zone at its end.
func parseJump(host string) []jump {
	if len(host) > maxName {
		return nil
	}
	host = strings.TrimSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+Zone)
	var all []jump
	if node, rest, ok := strings.Cut(host, "."); ok && isName(node) {
		if ref := parseRef(rest); ref != "" {
			all = append(all, jump{node, ref})
		}
	}
	if ref := parseRef(host); ref != "" {
		all = append(all, jump{"", ref})
	}
	return all
}
