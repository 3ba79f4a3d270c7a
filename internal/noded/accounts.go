package noded

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
	"muster/internal/protocol"
)

// comment marks the accounts that are ours in the comment field of passwd.
const comment = "Muster"

// firstUID is where Debian's own users begin; below are the system's accounts.
const firstUID = 1000

var accountName = pattern.New(`^[a-z_][a-z0-9_-]{0,31}$`)

// accountFiles are the three files that make an account, as text.
type accountFiles struct{ passwd, group, shadow string }

// withUsers returns the files with an account for each user, who of those that are ours has left, by number, and what is to
// be told of users who can't have an account, or not with a group of their name. Lines that are not ours are kept. The account
// of a user who has gone stays, so that its files have an owner, but is locked. Applying the result again changes nothing.
//
// A name or number that the image uses for a user is no other user's. A group that the image has is not given to the user of the
// same name, nor changed: who is shadow, docker or sudo would be in it. That user's group has another name.
// Others are accounts that the image knows from elsewhere than these files.
func (f accountFiles) withUsers(users []protocol.User, others accountFiles) (result accountFiles, left map[int]string,
	told error) {
	wanted := map[string]protocol.User{}
	foreign, ours := accounts(f.passwd)
	elsewhere, _ := accounts(others.passwd)
	maps.Copy(foreign, elsewhere)
	groups := foreignGroups(f.group+others.group, ours, users)
	// numbers that a user would share with somebody, or something, of the image
	numbers := lists.Set(slices.AppendSeq(slices.Collect(maps.Values(foreign)), maps.Values(groups)))
	var refused, renamed []string
	for _, u := range users {
		_, taken := foreign[u.Name]
		if taken || numbers[u.UID] || u.UID < firstUID || !accountName.MatchString(u.Name) {
			refused = append(refused, fmt.Sprintf("%q (%d)", u.Name, u.UID))
			continue
		}
		if _, taken := groups[u.Name]; taken {
			renamed = append(renamed, fmt.Sprintf("%s has %s", u.Name, otherGroup(u.UID)))
		}
		wanted[u.Name] = u
		ours[u.Name] = u.UID
	}
	left = map[int]string{}
	var passwd, group, shadow []string
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		uid := ours[name]
		passwd = append(passwd, fmt.Sprintf("%s:x:%d:%d:%s:/home/%s:/bin/bash", name, uid, uid, comment, name))
		groupName := name
		if _, taken := groups[name]; taken {
			groupName = otherGroup(uid)
		}
		group = append(group, fmt.Sprintf("%s:x:%d:", groupName, uid))
		if _, ok := wanted[name]; ok {
			shadow = append(shadow, name+":*:19000:0:99999:7:::") // no password fits, a key does
			continue
		}
		// locked: sshd does not let the user in; expired: nor does cron start anything
		shadow = append(shadow, name+":!:19000:0:99999:7::1:")
		left[uid] = name
	}
	for _, u := range wanted { // of two who share a number, one is here
		delete(left, u.UID)
	}
	isOurs := func(name string) bool { _, ok := ours[name]; return ok }
	result = accountFiles{
		passwd: replaceLines(f.passwd, isOurs, passwd),
		group: replaceLines(f.group, func(name string) bool {
			_, taken := groups[name]
			return isOurs(name) && !taken || otherGroupName.MatchString(name)
		}, group),
		shadow: replaceLines(f.shadow, isOurs, shadow),
	}
	if refused != nil {
		told = fmt.Errorf("no account for %s: the image uses the name or number, or it is not for users",
			strings.Join(refused, ", "))
	}
	if renamed != nil {
		told = errors.Join(told, fmt.Errorf("the image has groups of these names, so they have others: %s",
			strings.Join(renamed, ", ")))
	}
	return result, left, told
}

// otherGroup is the group of a user whose name is that of a group of the image.
func otherGroup(uid int) string { return fmt.Sprintf("_muster_%d", uid) }

var otherGroupName = pattern.New(`^_muster_[0-9]+$`)

// foreignGroups are the groups of the image: name to number. Ours have the name and number of an account of ours, or of one
// that is about to be: group is written before passwd.
func foreignGroups(group string, ours map[string]int, users []protocol.User) map[string]int {
	own := map[string]int{}
	for _, u := range users {
		own[u.Name] = u.UID
	}
	foreign := map[string]int{}
	for line := range strings.Lines(group) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 || otherGroupName.MatchString(fields[0]) {
			continue
		}
		gid, err := strconv.Atoi(fields[2])
		if err != nil {
			continue
		}
		uid, isOurs := ours[fields[0]]
		coming, isComing := own[fields[0]]
		if gid >= firstUID && (isOurs && uid == gid || isComing && coming == gid) {
			continue
		}
		foreign[fields[0]] = gid
	}
	return foreign
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

// asksElsewhere says whether nsswitch.conf names a source of users or groups beside the files.
func asksElsewhere(nsswitch string) bool {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		what, sources, _ := strings.Cut(line, ":")
		if what = strings.TrimSpace(what); what != "passwd" && what != "group" {
			continue
		}
		for _, source := range strings.Fields(sources) {
			if source != "files" && source != "compat" && source != "systemd" && !strings.HasPrefix(source, "[") {
				return true
			}
		}
	}
	return false
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
