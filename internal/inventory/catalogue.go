package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	netmail "net/mail"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"muster/internal/kit/duration"
	"muster/internal/kit/lists"
	"muster/internal/kit/mail"
	"muster/internal/kit/wrap"
	"muster/internal/price"
)

// Catalogue is what a site offers: its classes and what a cluster file need not say.
type Catalogue struct {
	Site    string
	Project string // of those who name none
	Image   string
	Class   string // of queues that name none
	VM      string // of queues that name none but want virtual machines: the first class of hypervisors; "" if there is none
	Head    string // class of head nodes
	Classes []Class
	Tariff  Tariff
	// Projects is what the site grants, by project; one that is not in it has no limits.
	Projects map[string]Project
	// BootWithin is how long a whole machine may be silent on its way up; 0: the default.
	BootWithin time.Duration
	Acceptance Acceptance
	Leases     Leases
	Login      Login
	// AuditKeep is how long it is kept who did what.
	AuditKeep time.Duration
	Jobs      Jobs
	Mail      *mail.Relay // that takes letters about jobs; nil: there is none
	// HypervisorIdle is how long a machine that became a hypervisor may be without guests, before it is a whole machine again; 0:
	// the default.
	HypervisorIdle time.Duration
	// Silence is how long the agent of a node may be silent before the node is failed; 0: the default.
	Silence time.Duration
	// Home is the size of the /home of clusters that name none, as a cluster file has it; Layers, in bytes, bounds what all
	// nodes of a cluster on the controller's host may write outside of it. Reserve, in bytes, is what stays free on the data
	// directory's file system; 0: the default.
	Home                       string
	HomeBytes, Layers, Reserve int64
	// Nodes is what nodes on the controller's host may do beyond what is usual.
	Nodes Nodes
	// Fabrics is what root says of InfiniBand fabrics, by name: what their drivers are told, before what operators say.
	Fabrics map[string]map[string]string
	// MaxLostShare is the share of a network's nodes that may be lost at once and be believed of each; 0: the default.
	MaxLostShare float64
}

// Jobs is what a site keeps of jobs that have ended: for so long, and of each project so many.
type Jobs struct {
	Keep       time.Duration
	PerProject int
}

// Nodes is what a site opens to all its nodes on the controller's host, as its file says under nodes. Each is more of the
// host's kernel that anybody in such a node can reach.
type Nodes struct {
	Perf           bool `yaml:"perf"`            // hardware counters
	UserNamespaces bool `yaml:"user_namespaces"` // containers without root
	IOUring        bool `yaml:"io_uring"`
	// Setuid says whether programs with setuid or file capabilities give what they say; nil: the image decides.
	Setuid *bool `yaml:"setuid"`
	// OwnUsers says whether nodes have user namespaces of their own; nil: where the host can.
	OwnUsers *bool `yaml:"own_users"`
}

// ProjectNames lists the projects that the site file knows, that of those who name none first.
func (c Catalogue) ProjectNames() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.Projects)), func(name string) bool { return name == c.Project })
	return append([]string{c.Project}, names...)
}

// siteFile is site.yaml as it is written.
type siteFile struct {
	Site     string `yaml:"site"`
	Defaults struct {
		Project string `yaml:"project"`
		Image   string `yaml:"image"`
		Class   string `yaml:"class"`
		Head    string `yaml:"head_class"`
	} `yaml:"defaults"`
	Limits struct {
		Boot         string `yaml:"boot"`
		Silence      string `yaml:"silence"`
		MaxLostShare string `yaml:"max_lost_share"`

		HypervisorIdle string `yaml:"hypervisor_idle"`

		Home    string `yaml:"home"`
		Layers  string `yaml:"layers"`
		Reserve string `yaml:"reserve"`
	} `yaml:"limits"`
	Acceptance acceptanceFile         `yaml:"acceptance"`
	Prices     pricesFile             `yaml:"prices"`
	Charge     []string               `yaml:"charge"`
	Projects   map[string]projectFile `yaml:"projects"`
	Leases     leasesWritten          `yaml:"leases"`
	Audit      struct {
		Keep string `yaml:"keep"`
	} `yaml:"audit"`
	Jobs struct {
		Keep       string `yaml:"keep"`
		PerProject *int   `yaml:"per_project"`
	} `yaml:"jobs"`
	Mail *struct {
		Relay   string   `yaml:"relay"`
		From    string   `yaml:"from"`
		Domains []string `yaml:"domains"`
	} `yaml:"mail"`
	Login   *loginWritten                `yaml:"login"`
	Nodes   Nodes                        `yaml:"nodes"`
	Fabrics map[string]map[string]string `yaml:"fabrics"`
	Classes []struct {
		Name   string   `yaml:"name"`
		Select []string `yaml:"select"`
		Price  string   `yaml:"price"`
		Lead   string   `yaml:"lead"`

		Hypervisor bool               `yaml:"hypervisor"`
		Overcommit *overcommitWritten `yaml:"overcommit"`
		VM         *shapeWritten      `yaml:"vm"`
	} `yaml:"classes"`
}

// builtin is the catalogue of a site that wrote none: evaluation on one host.
const builtin = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
  - {name: vm, select: ["substrate = vm"], hypervisor: true, overcommit: {cpu: 4}, vm: {cpus: 1, memory: 768MiB}}
`

// ReadCatalogue reads a site file; the empty path gives the built-in one.
func ReadCatalogue(path string) (Catalogue, error) {
	if path == "" {
		return parseCatalogue([]byte(builtin))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Catalogue{}, fmt.Errorf("read the site file: %w", err)
	}
	c, err := parseCatalogue(text)
	return c, wrap.Errorf(err, "site file %s", path)
}

func parseCatalogue(text []byte) (Catalogue, error) {
	var file siteFile
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return Catalogue{}, err
	}
	c := Catalogue{Site: file.Site, Project: file.Defaults.Project, Image: file.Defaults.Image, Class: file.Defaults.Class,
		Head: file.Defaults.Head}
	c.Nodes, c.Fabrics = file.Nodes, file.Fabrics
	var read limits
	c.BootWithin = read.span("boot", file.Limits.Boot, 10*time.Second, 24*time.Hour,
		"the time that a machine may be silent on its way up")
	c.Silence = read.span("silence", file.Limits.Silence, 15*time.Second, time.Hour,
		"the time that the agent of a node may be silent")
	c.HypervisorIdle = read.span("hypervisor_idle", file.Limits.HypervisorIdle, 10*time.Second, 7*24*time.Hour,
		"the time that a hypervisor may be without guests before it is a whole machine again")
	c.MaxLostShare = read.share(file.Limits.MaxLostShare)
	c.Home = cmp.Or(file.Limits.Home, "100GiB")
	c.HomeBytes = read.size("home", c.Home, "what a cluster's /home may hold that names no size")
	c.Layers = read.size("layers", cmp.Or(file.Limits.Layers, "50GiB"),
		"what all nodes of a cluster on this host may write outside of /home")
	if file.Limits.Reserve != "" {
		c.Reserve = read.size("reserve", file.Limits.Reserve, "what stays free on the data directory's file system")
	}
	err := read.wrong
	if err != nil {
		return c, err
	}
	if c.Acceptance, err = file.Acceptance.read(); err != nil {
		return c, err
	}
	if c.Leases, err = file.Leases.read(); err != nil {
		return c, err
	}
	if c.AuditKeep, err = duration.Within(cmp.Or(file.Audit.Keep, "400d"), 24*time.Hour, 10*366*24*time.Hour); err != nil {
		return c, fmt.Errorf("audit.keep, how long the record of who did what is kept: %w", err)
	}
	if c.Jobs, err = file.jobs(); err != nil {
		return c, err
	}
	if c.Mail, err = file.mail(); err != nil {
		return c, err
	}
	if c.Login, err = file.Login.read(); err != nil {
		return c, err
	}
	for i, written := range file.Classes {
		class := Class{Name: written.Name}
		if written.Name == "" || len(written.Select) == 0 {
			return c, fmt.Errorf("classes[%d]: a class needs a name and at least one condition under select", i)
		}
		if _, ok := c.Find(written.Name); ok {
			return c, fmt.Errorf("classes[%d]: class %q is there twice", i, written.Name)
		}
		for _, text := range written.Select {
			condition, err := ParseCondition(text)
			if err != nil {
				return c, fmt.Errorf("classes[%d].select: %w", i, err)
			}
			class.Select = append(class.Select, condition)
		}
		if written.Price != "" {
			amount, err := price.Parse(written.Price)
			if err != nil {
				return c, fmt.Errorf("classes[%d].price: %w", i, err)
			}
			class.Price = amount
		}
		if written.Lead != "" {
			lead, err := duration.Parse(written.Lead)
			if err != nil {
				return c, fmt.Errorf("classes[%d].lead: %w", i, err)
			}
			class.Lead = &lead
		}
		if err := class.guests(written.Hypervisor, written.Overcommit, written.VM); err != nil {
			return c, fmt.Errorf("classes[%d]: %w", i, err)
		}
		c.Classes = append(c.Classes, class)
		if c.VM == "" && class.Hypervisor {
			c.VM = class.Name
		}
	}
	for _, needed := range []struct{ field, value string }{{"site", c.Site}, {"defaults.project", c.Project},
		{"defaults.image", c.Image}} {
		if needed.value == "" {
			return c, fmt.Errorf("%s is missing", needed.field)
		}
	}
	for _, ref := range []struct{ field, class string }{{"defaults.class", c.Class}, {"defaults.head_class", c.Head}} {
		if _, ok := c.Find(ref.class); !ok {
			return c, fmt.Errorf("%s: there is no class %q; there are %s", ref.field, ref.class, strings.Join(c.Names(), ", "))
		}
	}
	return c, file.money(&c)
}

// jobs reads what is kept of jobs.
func (f siteFile) jobs() (jobs Jobs, err error) {
	if jobs.Keep, err = duration.Within(cmp.Or(f.Jobs.Keep, "400d"), 24*time.Hour, 10*366*24*time.Hour); err != nil {
		return jobs, fmt.Errorf("jobs.keep, how long it is kept which jobs have ended: %w", err)
	}
	const usual, most = 200_000, 100_000_000
	if jobs.PerProject = usual; f.Jobs.PerProject != nil {
		jobs.PerProject = *f.Jobs.PerProject
	}
	if jobs.PerProject < 1 || jobs.PerProject > most {
		return jobs, fmt.Errorf("jobs.per_project, how many of a project's jobs are kept: %d; write a number from 1 to %d",
			jobs.PerProject, most)
	}
	return jobs, nil
}

// mail reads how letters are sent.
func (f siteFile) mail() (*mail.Relay, error) {
	w := f.Mail
	if w == nil {
		return nil, nil
	}
	if host, port, err := net.SplitHostPort(w.Relay); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("mail.relay: %q; write the host and the port of an SMTP server, as in smtp.example.org:25", w.Relay)
	}
	r := &mail.Relay{Address: w.Relay, From: w.From}
	_, own, _ := strings.Cut(w.From, "@")
	for _, domain := range append(slices.Clone(w.Domains), own)[:max(1, len(w.Domains))] {
		r.Domains = append(r.Domains, strings.ToLower(domain))
	}
	if from, err := netmail.ParseAddress(w.From); err != nil || from.Address != w.From {
		return nil, fmt.Errorf("mail.from: %q; write the address that letters come from, as in muster@example.org", w.From)
	}
	for _, domain := range r.Domains {
		if _, err := r.Recipient("name@" + domain); err != nil {
			return nil, fmt.Errorf("mail.domains: %q is no domain", domain)
		}
	}
	return r, nil
}

// limits reads what the site file has below limits, field by field.
type limits struct{ wrong error } // what is wrong with the first of them that is

func (l *limits) refuse(err error) {
	if l.wrong == nil {
		l.wrong = err
	}
}

// span reads a time; "" is 0.
func (l *limits) span(field, text string, least, most time.Duration, what string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := duration.Within(text, least, most)
	l.refuse(wrap.Errorf(err, "limits.%s, %s", field, what))
	return d
}

// size reads a size in bytes.
func (l *limits) size(field, text, what string) int64 {
	const least, mib = 300, 1 << 20
	for unit, factor := range map[string]int64{"MiB": mib, "GiB": mib << 10, "TiB": mib << 20} {
		number, found := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseInt(number, 10, 32); found && err == nil && n > 0 && n*factor >= least*mib {
			return n * factor
		}
	}
	l.refuse(fmt.Errorf("limits.%s: %q; write %s, at least %dMiB, for example 200GiB", field, text, what, least))
	return 0
}

// share reads max_lost_share; "" is 0.
func (l *limits) share(text string) float64 {
	if text == "" {
		return 0
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil || !strings.HasSuffix(text, "%") || percent < 1 || percent > 100 {
		l.refuse(fmt.Errorf("limits.max_lost_share: %q; write the share of a network's nodes that may be lost at once before an "+
			"alarm is raised instead, from 1%% to 100%%, for example 25%%", text))
		return 0
	}
	return float64(percent) / 100
}

// Find returns the class of that name.
func (c Catalogue) Find(name string) (Class, bool) {
	return lists.Find(c.Classes, func(class Class) bool { return class.Name == name })
}

// Names lists the classes in the order of the site file.
func (c Catalogue) Names() []string {
	return lists.Map(c.Classes, func(class Class) string { return class.Name })
}
