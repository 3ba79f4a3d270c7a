package v1

// Network is where machines boot.
type Network struct {
	Name      string   `json:"name,omitempty" maxLength:"63" doc:"as in the path"`
	Namespace string   `json:"namespace,omitempty" maxLength:"4000" pattern:"^(/[ -~]*)?$" doc:"path of the network namespace that the interface is in; empty: the host's own"`
	Interface string   `json:"interface" pattern:"^[A-Za-z0-9@._-]+$" maxLength:"15" doc:"an interface of the controller's host; a bridge, if clusters are to have nodes on that host and on machines"`
	Address   string   `json:"address" maxLength:"18" doc:"the controller's own there, with prefix length" example:"10.78.0.1/16"`
	Mode      string   `json:"mode" enum:"own,proxy,off" doc:"own: Muster is the DHCP server; proxy: the site has one, and Muster adds what to boot; off: the site's server does all"`
	First     string   `json:"first,omitempty" maxLength:"15" doc:"address given to machines, in mode own"`
	Last      string   `json:"last,omitempty" maxLength:"15"`
	Gateway   string   `json:"gateway,omitempty" maxLength:"15" doc:"the gateway's address that machines are told, in mode own"`
	Unknown   string   `json:"unknown" enum:"ignore,enrol" doc:"what happens to machines that are not enrolled: ignore: no answer; enrol: they boot the inspector and are listed for enrolment"`
	Relays    []string `json:"relays,omitempty" maxItems:"16" doc:"MACs, on the network, of routers and DHCP relays that machines are behind: addresses that come through them are trusted without the machine's own frames"`
	Switch    string   `json:"switch,omitempty" words:"switches" doc:"what isolates clusters on it: bridge: machines' ports are interfaces of the controller's host on the network's bridge; ovs: they are ports of an Open vSwitch; none: nothing"`
	// Of Open vSwitch.
	SwitchBridge   string `json:"switch_bridge,omitempty" pattern:"^[A-Za-z0-9@._-]*$" maxLength:"15" doc:"for switch ovs: its bridge with the machines' ports"`
	SwitchDatabase string `json:"switch_database,omitempty" pattern:"^(unix:/[ -~]+)?$" maxLength:"200" doc:"for switch ovs: the address of its database" example:"unix:/run/openvswitch/db.sock"`
	Warning        string `json:"warning,omitempty" readOnly:"true" doc:"what is not isolated"`
}

// NetworkRef is a network in a path.
type NetworkRef struct {
	Network string `path:"network" doc:"name" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
}

// PutNetworkInput is what PutNetwork takes.
type PutNetworkInput struct {
	Network string `path:"network" doc:"name" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Body    Network
}
