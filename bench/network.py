#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Hosts on one machine: network namespaces on a bridge, with links of a given speed, and mpirun across them. Whoever
# uses it enters namespaces of mounts and processes first, so that nothing of it outlives the program, however that ends.

import contextlib
import ctypes
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

# A tmpfs that is seen in the mount namespace alone; `ip netns` keeps its names in it, too.
STATE = pathlib.Path("/run")
SWITCH = "switch"
SUBNET = "10.77.0."
PORT = 47311

# TCP as most hosts have it, whatever this one's defaults are; memory of connections by names in /proc/sys/net/ipv4.
CONGESTION_CONTROL = "cubic"
TCP_MEMORY = {"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304"}

# How much a link takes in one go beyond its speed, at least a segment of the largest size, and how much waits for it: what
# a port of a switch may take of the memory that its ports share. Less would punish whoever sends to a port at a time.
BURST_BYTES = 128 * 1024
QUEUE_BYTES = 4 * 1024 * 1024

# Of <sched.h>, <sys/mount.h> and <sys/prctl.h>.
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
MS_REC_PRIVATE = 1 << 14 | 1 << 18
PR_SET_PDEATHSIG = 1


class Missing(Exception):
    """What this machine does not let us do."""


def refusal():
    """Why there can be no such hosts here; None when nothing is known to be missing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no `{program}` (Debian: {package})"
    return None


def system_call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise Missing(f"this machine allows no namespaces: {name}: {os.strerror(ctypes.get_errno())}")


def enter():
    """Goes on in a child, the first process of namespaces of processes and mounts; returns there alone.

    The kernel kills that process when this one ends, by whatever signal, with it all others inside, and with the
    last of them go mounts, network namespaces and links.
    """
    reason = refusal()
    if reason:
        raise Missing(reason)
    system_call("unshare", CLONE_NEWNS | CLONE_NEWPID)
    system_call("mount", b"none", b"/", None, MS_REC_PRIVATE, None)
    alive, held = os.pipe()
    child = os.fork()
    if child != 0:
        watch(child)
    system_call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.close(held)
    if select.select([alive], [], [], 0)[0]:
        sys.exit("the process outside ended before it was watched")
    os.close(alive)
    system_call("mount", b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)
    system_call("mount", b"tmpfs", os.fsencode(STATE), b"tmpfs", 0, b"mode=755")


def watch(child):
    """Waits for a child and ends as it did, or ends it when this process is to end."""

    def end(number, _):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        sys.stdout.flush()
        os._exit(128 + number)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def run(*words):
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Missing(f"`{' '.join(words)}` failed: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout


def inside(host, *words):
    """A command line that runs in the network of a host."""
    return ["ip", "netns", "exec", host, *words]


class Network:
    """So many hosts, each with one interface, eth0, on one switch."""

    def __init__(self, hosts):
        self.hosts = [f"node{number}" for number in range(1, hosts + 1)]
        self._ports = [f"port{number}" for number in range(1, hosts + 1)]
        run("ip", "netns", "add", SWITCH)
        run("ip", "-n", SWITCH, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", SWITCH, "link", "set", "bridge", "up")
        for host, port in zip(self.hosts, self._ports, strict=True):
            run("ip", "netns", "add", host)
            run("ip", "-n", SWITCH, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
            run("ip", "-n", SWITCH, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", host, "link", "set", "lo", "up")
            run("ip", "-n", host, "link", "set", "eth0", "up")
            # By the route, since not every kernel takes a default for a namespace.
            route = ["route", "replace", SUBNET + "0/24", "dev", "eth0", "scope", "link", "src", self.address(host)]
            run("ip", "-n", host, *route, "congctl", CONGESTION_CONTROL)
            for name, value in TCP_MEMORY.items():
                run(*inside(host, "sh", "-c", 'echo "$1" >"/proc/sys/net/ipv4/$0"', name, value))
        self._write_names()

    def address(self, host):
        return SUBNET + str(self.hosts.index(host) + 1)

    def _write_names(self):
        names = STATE / "hosts"
        lines = ["127.0.0.1 localhost", *(f"{self.address(host)} {host}" for host in self.hosts)]
        names.write_text("\n".join(lines) + "\n")
        run("mount", "--bind", str(names), "/etc/hosts")
        # What ssh is to mpirun elsewhere: a host, and a command line for its shell.
        self._agent = STATE / "agent"
        self._agent.write_text(
            "#!/bin/sh\nhost=$1\nshift\n"
            "exec ip netns exec \"$host\" unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' \"$host\" \"$*\"\n"
        )
        self._agent.chmod(0o755)

    def shape(self, gigabits):
        """Gives every link this speed, each way."""
        limits = ["rate", f"{gigabits * 1000:g}mbit", "burst", str(BURST_BYTES), "limit", str(QUEUE_BYTES)]
        ends = [*((host, "eth0") for host in self.hosts), *((SWITCH, port) for port in self._ports)]
        for place, interface in ends:
            run("tc", "-n", place, "qdisc", "replace", "dev", interface, "root", "tbf", *limits)

    def stream_gigabits(self, seconds=1.0):
        """What one connection carries between the first two hosts, in payload."""
        source, target = self.hosts[0], self.hosts[1]
        program = [sys.executable, "-B", str(pathlib.Path(__file__).resolve())]
        receiver = subprocess.Popen(inside(target, *program, "receive"), stdout=subprocess.PIPE, text=True)
        with contextlib.ExitStack() as stack:
            stack.callback(receiver.wait)
            stack.callback(receiver.kill)
            receiver.stdout.readline()  # it listens
            run(*inside(source, *program, "send", self.address(target), str(seconds)))
            return float(receiver.stdout.readline())

    def retransmitted(self):
        """Segments that the hosts have sent again so far."""
        total = 0
        for host in self.hosts:
            lines = [line.split() for line in run(*inside(host, "cat", "/proc/net/snmp")).splitlines()]
            names, values = (line for line in lines if line[0] == "Tcp:")
            total += int(values[names.index("RetransSegs")])
        return total

    def mpirun(self, words, ranks, environment=(), parameters=()):
        """A command line that runs `words` on the first hosts, a rank on each. `parameters` are MCA's, name and value."""
        everything = [
            ("plm_rsh_agent", str(self._agent)),
            ("orte_tmpdir_base", str(STATE)),
            # A session of their own would have a share of the cores of its own.
            ("orte_leave_session_attached", "1"),
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", "eth0"),
            ("oob_tcp_if_include", "eth0"),
            ("mpi_yield_when_idle", "1"),
            *parameters,
        ]
        line = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "node"]
        line += ["--host", ",".join(f"{host}:1" for host in self.hosts[:ranks]), "-np", str(ranks)]
        for name, value in everything:
            line += ["--mca", name, str(value)]
        for name, value in environment:
            line += ["-x", f"{name}={value}"]
        first = self.hosts[0]
        return inside(first, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', first, *line, *words)


def receive():
    with socket.create_server(("", PORT)) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        with connection:
            buffer = bytearray(1 << 20)
            first = connection.recv_into(buffer)
            started, total = time.monotonic(), 0
            while first and (count := connection.recv_into(buffer)):
                total += count
            print(total * 8 / 1e9 / (time.monotonic() - started), flush=True)


def send(address, seconds):
    block = bytes(1 << 20)
    with socket.create_connection((address, PORT)) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(block)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    else:
        send(sys.argv[2], float(sys.argv[3]))
