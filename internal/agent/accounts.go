package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/internal/agent/protocol"
)

// comment marks the accounts that are ours in the comment field of passwd.
const comment = "Muster"

// firstUID is where Debian's own users begin; below are the system's accounts.
const firstUID = 1000

var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// accountFiles are the three files that make an account, as text.
type accountFiles struct{ passwd, group, shadow string }

// withUsers returns the files with an account for each user, and the users who can't have one. Lines that are not ours
// are kept. The account of a user who has gone stays, so that its files have an owner, but is locked. Applying the
// result again changes nothing.
func (f accountFiles) withUsers(users []protocol.User) (accountFiles, error) {
	var refused []string
	wanted := map[string]protocol.User{}
	foreign, ours := accounts(f.passwd)
	for _, u := range users {
		_, taken := foreign[u.Name]
		if taken || u.UID < firstUID || !accountName.MatchString(u.Name) {
			refused = append(refused, fmt.Sprintf("%q (%d)", u.Name, u.UID))
			continue
		}
		wanted[u.Name] = u
		ours[u.Name] = u.UID
	}
	var passwd, group, shadow []string
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		uid := ours[name]
		passwd = append(passwd, fmt.Sprintf("%s:x:%d:%d:%s:/home/%s:/bin/bash", name, uid, uid, comment, name))
		group = append(group, fmt.Sprintf("%s:x:%d:", name, uid))
		password := "*" // no password fits, a key does
		if _, ok := wanted[name]; !ok {
			password = "!" // locked: sshd lets nobody in
		}
		shadow = append(shadow, fmt.Sprintf("%s:%s:19000:0:99999:7:::", name, password))
	}
	isOurs := func(name string) bool { _, ok := ours[name]; return ok }
	result := accountFiles{
		passwd: replaceLines(f.passwd, isOurs, passwd),
		group:  replaceLines(f.group, isOurs, group),
		shadow: replaceLines(f.shadow, isOurs, shadow),
	}
	if refused != nil {
		return result, fmt.Errorf("no account for %s: the name or number is not for users", strings.Join(refused, ", "))
	}
	return result, nil
}

// accounts reads passwd: name to number, ours apart from the others.
func accounts(passwd string) (foreign, ours map[string]int) {
	foreign, ours = map[string]int{}, map[string]int{}
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 5 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		if err != nil {
			continue
		}
		if fields[4] == comment {
			ours[fields[0]] = uid
		} else {
			foreign[fields[0]] = uid
		}
	}
	return foreign, ours
}

// account finds the number and group of a system account.
func account(passwd, name string) (*Account, error) {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(line, ":")
		if fields[0] != name || len(fields) < 4 {
			continue
		}
		uid, err1 := strconv.Atoi(fields[2])
		gid, err2 := strconv.Atoi(fields[3])
		if err1 == nil && err2 == nil {
			return &Account{UID: uid, GID: gid}, nil
		}
	}
	return nil, fmt.Errorf("the image has no account %q", name)
}

// replaceLines drops the lines whose first field is ours and appends the new ones.
func replaceLines(text string, ours func(string) bool, lines []string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(line, ":"); !ours(strings.TrimSpace(name)) {
			b.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}
