// A device plugin as a vendor would write it, against Kubernetes' own package: for tests of the agent.
//
//	plugin -dir DIR -resource example.com/gpu -devices 8 -prefix GPU- [-prestart] [-endpoint gpu.sock]
//
// Lines on standard input change it: "unhealthy ID", "healthy ID", "remove ID", "add ID", "fail TEXT" (Allocate fails with
// it; empty: it works again), "slow SECONDS" (Allocate takes so long), "register" (once more). What it is asked is printed,
// a line for each call.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	prestart bool

	mu      sync.Mutex
	devices map[string]*api.Device
	changed []chan struct{}
	failing string
	slow    time.Duration
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{PreStartRequired: p.prestart}, nil
}

func (p *plugin) list() *api.ListAndWatchResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := &api.ListAndWatchResponse{}
	for _, one := range p.devices {
		found.Devices = append(found.Devices, &api.Device{ID: one.ID, Health: one.Health, Topology: one.Topology})
	}
	sort.Slice(found.Devices, func(i, j int) bool { return found.Devices[i].ID < found.Devices[j].ID })
	return found
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	changed := make(chan struct{}, 1)
	p.mu.Lock()
	p.changed = append(p.changed, changed)
	p.mu.Unlock()
	for {
		if err := stream.Send(p.list()); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (p *plugin) GetPreferredAllocation(context.Context, *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	say("preferred")
	return &api.PreferredAllocationResponse{}, nil
}

func (p *plugin) Allocate(ctx context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	p.mu.Lock()
	failing, slow := p.failing, p.slow
	p.mu.Unlock()
	time.Sleep(slow)
	answer := &api.AllocateResponse{}
	for _, one := range request.ContainerRequests {
		say("allocate " + strings.Join(one.DevicesIds, ","))
		if failing != "" {
			return nil, fmt.Errorf("%s", failing)
		}
		found := &api.ContainerAllocateResponse{
			Envs:        map[string]string{"VISIBLE_DEVICES": strings.Join(one.DevicesIds, ",")},
			Mounts:      []*api.Mount{{ContainerPath: "/usr/lib/vendor", HostPath: "/opt/vendor/lib", ReadOnly: true}},
			Annotations: map[string]string{"vendor.example.com/note": "lost"},
			CdiDevices:  []*api.CDIDevice{{Name: "vendor.example.com/gpu=" + strings.ToLower(one.DevicesIds[0])}},
		}
		for _, id := range one.DevicesIds {
			path := "/dev/vendor/" + id
			found.Devices = append(found.Devices, &api.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, found)
	}
	return answer, nil
}

func (p *plugin) PreStartContainer(_ context.Context, request *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	say("prestart " + strings.Join(request.DevicesIds, ","))
	return &api.PreStartContainerResponse{}, nil
}

func (p *plugin) obey(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	switch verb {
	case "unhealthy":
		p.devices[rest].Health = api.Unhealthy
	case "healthy":
		p.devices[rest].Health = api.Healthy
	case "remove":
		delete(p.devices, rest)
	case "add":
		p.devices[rest] = &api.Device{ID: rest, Health: api.Healthy}
	case "fail":
		p.failing = rest
	case "slow":
		seconds, _ := strconv.ParseFloat(rest, 64)
		p.slow = time.Duration(seconds * float64(time.Second))
	}
	for _, changed := range p.changed {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	say("done " + line)
}

func register(dir, endpoint, resource string, options *api.DevicePluginOptions) error {
	connection, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: resource, Options: options,
	})
	return err
}

var speaking sync.Mutex

func say(text string) {
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Println(text)
}

func main() {
	dir := flag.String("dir", "", "folder of the registration socket")
	resource := flag.String("resource", "example.com/gpu", "")
	endpoint := flag.String("endpoint", "", "default: made of the resource")
	count := flag.Int("devices", 8, "")
	prefix := flag.String("prefix", "GPU-", "of ids")
	prestart := flag.Bool("prestart", false, "")
	flag.Parse()
	if *endpoint == "" {
		*endpoint = strings.ReplaceAll(*resource, "/", "-") + ".sock"
	}
	p := &plugin{resource: *resource, prestart: *prestart, devices: map[string]*api.Device{}}
	for number := range *count {
		id := fmt.Sprintf("%s%d", *prefix, number)
		numa := &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: int64(number % 2)}}}
		p.devices[id] = &api.Device{ID: id, Health: api.Healthy, Topology: numa}
	}
	path := filepath.Join(*dir, *endpoint)
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	options := &api.DevicePluginOptions{PreStartRequired: *prestart}
	if err := register(*dir, *endpoint, *resource, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		say("refused " + err.Error())
		os.Exit(1)
	}
	say("registered")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "register" {
			if err := register(*dir, *endpoint, *resource, options); err != nil {
				say("refused " + err.Error())
			} else {
				say("registered")
			}
			continue
		}
		p.obey(lines.Text())
	}
	server.Stop()
}
