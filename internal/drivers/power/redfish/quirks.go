package redfish

import (
	"slices"
	"strings"
)

// way is how a Redfish service wants to be asked where it differs from DSP0266. The zero value is the standard: a PATCH
// of Boot on the system with what is to change and nothing else. Whatever the service, an action (POST) carries no
// If-Match, which iDRAC answers with 412 (ironcore-dev/metal-operator#1015); Boot.HttpBootUri, which Dell has not
// (dsx-ai-factory/libredfish#75), is never written; and a service that asks for an ETag by 412 or 428 gets one.
type way struct {
	ifMatch      bool   // a PATCH is refused without the resource's ETag
	cutETag      string // what the service adds to ETags, inside the quotes, and does not take back
	settings     bool   // Boot is read-only on the system; what refuses it there takes it on the settings resource
	settingsPath string // where that is, below the system, if the system does not say so by @Redfish.Settings
	mode         bool   // a PATCH without BootSourceOverrideMode resets it
}

// quirk is a vendor's way, with the words that tell the vendor: any of them, as a whole word, in what service and system
// say of vendor, product, manufacturer or model.
type quirk struct {
	words []string
	way   way
	seen  string // where it was seen
}

// quirks is a table that nothing changes. All rows that fit a service count together.
var quirks = []quirk{
	{[]string{"ami"}, way{ifMatch: true, settings: true, settingsPath: "/SD"},
		"stmcginnis/gofish#171 (Lenovo SR655: 'AMI Redfish Server'), DMTF/Redfish-Tacklebox#111 and #144 " +
			"(OperationSupportedInFutureStateURI)"},
	{[]string{"dell"}, way{settings: true, cutETag: "-gzip"},
		"bmc-toolbox/bmclib#461 (iDRAC10: PropertyNotWritable on the system, 200 on its settings), stmcginnis/gofish#511"},
	{[]string{"supermicro", "super micro"}, way{mode: true},
		"DMTF/Redfishtool#106, ironcore-dev/metal-operator#607"},
	{[]string{"lenovo"}, way{ifMatch: true},
		"ansible/ansible#56050 (428 without)"},
	{[]string{"huawei", "xfusion"}, way{ifMatch: true},
		"ansible/ansible#60031 (412 without)"},
}

// wayOf is the way of the service that says these things of itself.
func wayOf(says ...string) way {
	text := " " + strings.ToLower(strings.Join(says, " ")) + " "
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(",.;()/®™", r) {
			return ' '
		}
		return r
	}, text)
	var w way
	for _, q := range quirks {
		if !slices.ContainsFunc(q.words, func(word string) bool { return strings.Contains(text, " "+word+" ") }) {
			continue
		}
		w.ifMatch = w.ifMatch || q.way.ifMatch
		w.settings = w.settings || q.way.settings
		w.mode = w.mode || q.way.mode
		if q.way.cutETag != "" {
			w.cutETag = q.way.cutETag
		}
		if q.way.settingsPath != "" {
			w.settingsPath = q.way.settingsPath
		}
	}
	return w
}

// etag is an ETag as the service takes it back.
func (w way) etag(tag string) string {
	if w.cutETag == "" {
		return tag
	}
	inside, quoted := strings.CutSuffix(tag, `"`)
	inside = strings.TrimSuffix(inside, w.cutETag)
	if quoted {
		inside += `"`
	}
	return inside
}
