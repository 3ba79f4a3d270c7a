// Package ufmtest is a server that speaks as much of UFM's REST interface as package ufm uses, over a fabric in memory.
//
// What enters: requests, and faults from the test. What leaves: answers in the words of the guide ("PKey GUIDs Rest API"), and
// the tables of the fabric's ports, which package fabric/fake keeps. It was written from documents; no UFM was there to compare.
package ufmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/internal/drivers/fabric/fake"
	"muster/internal/fabric"
)

// Who may ask.
const (
	User     = "admin"
	Password = "open sesame"
	Token    = "dG9rZW4"
)

// Fault is what goes wrong with a request.
type Fault int

// The faults. Those that are Half do half of what was asked for.
const (
	None       Fault = iota
	Broken           // the server fails, and has done nothing
	BrokenDone       // the server fails when all is done
	Half             // it says that all went well
	HalfBroken       // the server fails in the middle
	Cut              // the connection breaks when all is done
	Page             // a page for people comes instead of an answer
	LoggedOut        // the user is not let in
	Slow             // no answer comes before the client has gone
)

// Server implements http.Handler.
type Server struct {
	Fabric *fake.Fabric
	// Fault says what goes wrong with a request; nil: nothing. It is called with requests one after the other.
	Fault func(r *http.Request) Fault

	manager fabric.GUID
	mu      sync.Mutex
	members map[fabric.Key]map[fabric.GUID]string
	up      map[fabric.GUID]bool
	strict  bool
	open    bool
	asked   []string
}

// New is a UFM whose own port is manager, on a fabric with these ports.
func New(manager fabric.GUID, ports ...fabric.GUID) *Server {
	s := &Server{Fabric: fake.New(manager, ports...), manager: manager, up: map[fabric.GUID]bool{manager: true},
		members: map[fabric.Key]map[fabric.GUID]string{fabric.DefaultKey: {manager: "full"}}}
	for _, g := range ports {
		s.up[g] = true
	}
	return s
}

// Strict has the server refuse ports that it has never seen.
func (s *Server) Strict() { s.locked(func() { s.strict = true }) }

// Open makes every port a full member of the default partition, as UFM's configuration may say.
func (s *Server) Open() { s.locked(func() { s.open = true }) }

// Down takes a port's link away, or brings it back.
func (s *Server) Down(g fabric.GUID, down bool) {
	s.locked(func() { s.up[g] = !down })
	s.Fabric.Silence(g, down)
}

// Put makes a port a member behind everybody's back, as an operator in UFM's own console does.
func (s *Server) Put(key fabric.Key, g fabric.GUID, membership string) {
	s.locked(func() {
		if s.members[key] == nil {
			s.members[key] = map[fabric.GUID]string{}
		}
		s.members[key][g] = membership
		s.spread()
	})
}

// Asked are the requests that changed something, in their order: "POST 0x1", "DELETE 0x1".
func (s *Server) Asked() (all []string) {
	s.locked(func() { all = slices.Clone(s.asked) })
	return all
}

func (s *Server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := None
	s.locked(func() {
		if s.Fault != nil {
			fault = s.Fault(r)
		}
	})
	path, ok := s.letIn(r)
	switch {
	case fault == LoggedOut || !ok:
		http.Error(w, `{"error": "Invalid username/password"}`, http.StatusUnauthorized)
		return
	case fault == Page:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!DOCTYPE html><html><title>Login</title></html>")
		return
	case fault == Broken:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	case fault == Slow:
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // an answer that has no words could still reach a client that is about to go
	}
	code, answer := http.StatusNotFound, any(map[string]string{"error": "no such resource"})
	s.locked(func() { code, answer = s.answer(r, path, fault == Half || fault == HalfBroken) })
	switch {
	case fault == BrokenDone || fault == HalfBroken:
		code, answer = http.StatusBadGateway, "proxy error"
	case fault == Cut:
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // to a client that has gone
}

// letIn knows users by the door for users, and tokens by the one for tokens.
func (s *Server) letIn(r *http.Request) (path string, ok bool) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/ufmRest/"); ok {
		user, password, given := r.BasicAuth()
		return path, given && user == User && password == Password
	}
	path, ok = strings.CutPrefix(r.URL.Path, "/ufmRestV3/")
	return path, ok && r.Header.Get("Authorization") == "Basic "+Token
}

// answer is called with the lock held.
func (s *Server) answer(r *http.Request, path string, half bool) (int, any) {
	words := strings.Split(strings.TrimSuffix(path, "/"), "/")
	at := strings.Join(words[:min(2, len(words))], "/")
	switch {
	case r.Method == http.MethodGet && at == "resources/ports" && len(words) == 2:
		return http.StatusOK, s.listPorts()
	case at != "resources/pkeys":
	case r.Method == http.MethodGet && len(words) == 2:
		return http.StatusOK, s.listPartitions(r.URL.Query().Get("guids_data") == "true")
	case r.Method == http.MethodPost && len(words) == 2:
		return s.add(r, half)
	case r.Method == http.MethodDelete && len(words) == 5 && words[3] == "guids":
		return s.remove(words[2], strings.Split(words[4], ","), half)
	}
	return http.StatusNotFound, map[string]string{"error": "no such resource"}
}

func (s *Server) listPorts() any {
	type port struct {
		GUID  string `json:"guid"`
		Name  string `json:"name"`
		State string `json:"logical_state"`
	}
	all := []port{}
	for g, up := range s.up {
		all = append(all, port{bare(g), bare(g) + "_1", map[bool]string{true: "Active", false: "Down"}[up]})
	}
	return all
}

func (s *Server) listPartitions(members bool) any {
	type member struct {
		GUID       string `json:"guid"`
		Membership string `json:"membership"`
		Index0     bool   `json:"index0"`
	}
	type partition struct {
		Name       string   `json:"partition"`
		IPoIB      bool     `json:"ip_over_ib"`
		Membership string   `json:"membership,omitempty"`
		GUIDs      []member `json:"guids,omitempty"`
	}
	all := map[string]partition{}
	for key, of := range s.members {
		p := partition{Name: "api_pkey_" + spell(key), IPoIB: true}
		if key == fabric.DefaultKey {
			p.Name, p.Membership = "management", map[bool]string{true: "full", false: "limited"}[s.open]
		}
		for g, as := range of {
			if members {
				p.GUIDs = append(p.GUIDs, member{GUID: bare(g), Membership: as})
			}
		}
		all[spell(key)] = p
	}
	return all
}

func (s *Server) add(r *http.Request, half bool) (int, any) {
	var asked struct {
		Key        string   `json:"pkey"`
		GUIDs      []string `json:"guids"`
		Membership string   `json:"membership"`
	}
	asked.Membership = "full"
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return http.StatusBadRequest, map[string]string{"error": err.Error()}
	}
	key, ports, err := read(asked.Key, asked.GUIDs)
	if err == nil && asked.Membership != "full" && asked.Membership != "limited" {
		err = fmt.Errorf("membership %q", asked.Membership)
	}
	for _, g := range ports {
		if _, known := s.up[g]; s.strict && !known {
			err = fmt.Errorf("GUID %s is not on the fabric", bare(g))
		}
	}
	if err != nil {
		return http.StatusBadRequest, map[string]string{"error": err.Error()}
	}
	if half {
		ports = ports[:len(ports)/2]
	}
	s.asked = append(s.asked, "POST "+spell(key))
	for _, g := range ports {
		if s.members[key] == nil {
			s.members[key] = map[fabric.GUID]string{}
		}
		s.members[key][g] = asked.Membership
	}
	s.spread()
	return http.StatusOK, map[string]string{}
}

func (s *Server) remove(name string, guids []string, half bool) (int, any) {
	key, ports, err := read(name, guids)
	if err != nil {
		return http.StatusBadRequest, map[string]string{"error": err.Error()}
	}
	if s.members[key] == nil {
		return http.StatusNotFound, map[string]string{"error": "no partition " + spell(key)}
	}
	if half {
		ports = ports[:len(ports)/2]
	}
	s.asked = append(s.asked, "DELETE "+spell(key))
	for _, g := range ports {
		delete(s.members[key], g)
	}
	if len(s.members[key]) == 0 && key != fabric.DefaultKey {
		delete(s.members, key)
	}
	s.spread()
	return http.StatusOK, map[string]string{}
}

// spread has the ports hold what the partitions say.
func (s *Server) spread() {
	i := fabric.Intent{Managers: []fabric.GUID{s.manager}}
	for key, of := range s.members {
		p := fabric.Partition{Key: key, Members: map[fabric.GUID]fabric.Membership{}}
		for g, as := range of {
			p.Members[g] = map[string]fabric.Membership{"full": fabric.Full, "limited": fabric.Limited}[as]
			if key == fabric.DefaultKey && as == "full" && g != s.manager {
				i.Managers = append(i.Managers, g)
			}
		}
		if key != fabric.DefaultKey {
			i.Partitions = append(i.Partitions, p)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Fabric.Apply(ctx, i) // single ports may resist
}

func read(name string, guids []string) (fabric.Key, []fabric.GUID, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "0x"), 16, 15)
	if err != nil || n == 0 {
		return 0, nil, fmt.Errorf("pkey %q", name)
	}
	var ports []fabric.GUID
	for _, text := range guids {
		g, err := fabric.ParseGUID(text)
		if err != nil {
			return 0, nil, err
		}
		ports = append(ports, g)
	}
	return fabric.Key(n), ports, nil
}

func spell(k fabric.Key) string { return "0x" + strconv.FormatUint(uint64(k), 16) }

func bare(g fabric.GUID) string { return strings.TrimPrefix(g.String(), "0x") }
