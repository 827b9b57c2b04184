#include "tests/simulation/kernel.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace dlock::simulation {
namespace {

Kernel* the_kernel = nullptr;

constexpr int first_descriptor = 100'000;
// The time of day at which the machines were started.
constexpr Time epoch = 1'700'000'000 * second;

}  // namespace

std::uint64_t Random::next() {  // splitmix64
  auto z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Time Random::spread(Time least, Time most) {
  const auto low = std::log(static_cast<double>(least));
  const auto high = std::log(static_cast<double>(most));
  return static_cast<Time>(std::exp(low + (high - low) * unit()));
}

struct Kernel::File {
  enum class Kind { poll, timer, counter, signals, socket };
  struct Watch {
    epoll_event wanted{};
    bool is_new = true;  // something has happened since it was last reported
  };

  Kind kind;
  Process* owner = nullptr;
  bool is_open = true;
  std::map<int, Watch> watched{};  // by a `poll`
  int watcher = -1;                // the `poll` that watches it
  std::uint64_t count = 0;         // of a counter; of a timer that has expired
  std::uint64_t setting = 0;       // of a timer: the number of its last setting
  std::shared_ptr<Connection> connection{};
  bool is_connected = false;
  bool discards = false;  // SO_LINGER
  int error = 0;
  bool has_ended = false;  // the server has closed the connection
  std::string received{};

  std::uint32_t state() const {
    std::uint32_t bits = 0;
    if (kind == Kind::counter) bits = EPOLLOUT | (count > 0 ? EPOLLIN : 0u);
    if (kind == Kind::timer) bits = count > 0 ? EPOLLIN : 0u;
    if (kind == Kind::signals) bits = received.empty() ? 0u : EPOLLIN;
    if (kind != Kind::socket) return bits;
    if (error != 0) return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP;
    if (!received.empty() || has_ended) bits |= EPOLLIN;
    if (is_connected) bits |= EPOLLOUT;
    return bits;
  }
};

std::int64_t Peer::clock() const {
  const auto now = static_cast<double>(the_kernel->now);
  return (epoch + clock_offset + static_cast<Time>(now * (1 + rate))) / microsecond;
}

Time Peer::moment_of(std::int64_t shown) const {
  const auto left = static_cast<double>(shown - clock()) * microsecond / (1 + rate);
  return the_kernel->now + static_cast<Time>(left);
}

void Peer::pause(Time span) { paused_until = the_kernel->now + span; }

Kernel::Kernel(std::uint64_t seed) : random(seed) { the_kernel = this; }
Kernel::~Kernel() { the_kernel = nullptr; }
Kernel* Kernel::current() { return the_kernel; }

void Kernel::at(Time moment, std::function<void()> happens) {
  events_.push({std::max(moment, now), ++numbers_, std::move(happens)});
}

bool Kernel::step(Time end) {
  if (events_.empty() || events_.top().at > end) return false;
  const auto event =
      std::move(const_cast<Event&>(events_.top()));  // NOLINT: it is popped
  events_.pop();
  looks = 0;
  now = event.at;
  note(static_cast<std::uint64_t>(now) ^ event.number << 48);
  event.happens();
  return true;
}

void Kernel::trace(const std::string& line) const {
  if (!traces) return;
  std::printf("%11.6f  %s\n", static_cast<double>(now - 1000 * second) / second,
              line.c_str());
}

Time Kernel::delay() {
  if (network.late > 0 && random.chance(network.late)) {
    return random.spread(network.most, network.latest);
  }
  return random.between(network.least, network.most);
}

Kernel::File* Kernel::file(int fd) {
  const auto index = static_cast<std::size_t>(fd - first_descriptor);
  if (fd < first_descriptor || index >= files_.size()) return nullptr;
  return files_[index]->is_open ? files_[index].get() : nullptr;
}

int Kernel::open(File made) {
  made.owner = running;
  files_.push_back(std::make_unique<File>(std::move(made)));
  const auto fd = first_descriptor + static_cast<int>(files_.size()) - 1;
  if (running != nullptr) running->opened.push_back(fd);
  return fd;
}

int Kernel::close(int fd) {
  auto* closing = file(fd);
  if (closing == nullptr) return 0;  // by a destructor of a process that was killed
  closing->is_open = false;
  if (auto* watcher = file(closing->watcher)) watcher->watched.erase(fd);
  if (closing->connection) closing->connection->close_client(closing->discards);
  closing->received.clear();
  return 0;
}

void Kernel::kill(Process& process) {
  process.is_dead = true;
  for (const int fd : process.opened) close(fd);
}

void Kernel::signal(const Process& process, int number) {
  signalfd_siginfo info{};
  info.ssi_signo = static_cast<std::uint32_t>(number);
  for (const int fd : process.opened) {
    auto* inbox = file(fd);
    if (inbox == nullptr || inbox->kind != File::Kind::signals) continue;
    inbox->received.append(reinterpret_cast<const char*>(&info), sizeof info);  // NOLINT
    activity(fd);
  }
}

void Kernel::activity(int fd) {
  auto* changed = file(fd);
  if (changed == nullptr) return;
  if (auto* watcher = file(changed->watcher)) watcher->watched[fd].is_new = true;
  if (changed->owner != nullptr) changed->owner->is_ready = true;
}

Connection* Kernel::connection(int fd) {
  auto* socket = file(fd);
  return socket == nullptr ? nullptr : socket->connection.get();
}

void Connection::send(Direction& direction, std::string bytes, bool is_end) {
  auto& kernel = *the_kernel;
  const auto send_part = [&](std::string part) {
    direction.packets.push_back({std::move(part), is_end});
    direction.free_at = std::max(direction.free_at, kernel.now + kernel.delay());
    kernel.at(direction.free_at,
              [self = shared_from_this(), &direction] { self->deliver(direction); });
  };
  const auto size = bytes.size();
  if (size > 1 && kernel.random.chance(kernel.network.split)) {
    const auto at = 1 + kernel.random.below(size - 1);
    send_part(bytes.substr(0, at));
    bytes.erase(0, at);
  }
  send_part(std::move(bytes));
}

void Connection::hold_up(Time span) {
  up_.free_at = std::max(up_.free_at, the_kernel->now + span);
}

void Connection::deliver(Direction& direction) {
  if (direction.packets.empty()) return;
  auto& kernel = *the_kernel;
  // Sent again after a cut: the longer it lasted, the later.
  auto again = kernel.cut(process, &peer);
  if (again > kernel.now) again += kernel.random.spread(millisecond, second);
  if (direction.is_up) again = std::max(again, peer.paused_until);
  if (again > kernel.now) {
    return kernel.at(
        again, [self = shared_from_this(), &direction] { self->deliver(direction); });
  }
  const auto packet = std::move(direction.packets.front());
  direction.packets.pop_front();
  if (direction.is_up) {
    if (server_has_closed) return;
    if (packet.is_end) {
      server_has_closed = true;
      return peer.closed(shared_from_this());
    }
    return peer.received(shared_from_this(), packet.bytes);
  }
  auto* socket = kernel.file(descriptor);
  if (client_has_closed || socket == nullptr) return;
  if (packet.is_end) {
    socket->has_ended = true;
  } else {
    socket->received += packet.bytes;
  }
  kernel.activity(descriptor);
}

void Connection::close_client(bool discards) {
  if (std::exchange(client_has_closed, true)) return;
  // Packets that are on their way arrive nevertheless.
  const bool is_cut = the_kernel->cut(process, &peer) > the_kernel->now;
  if (discards && is_cut) up_.packets.clear();
  send(up_, "", true);
}

void Connection::close_server(bool discards) {
  if (std::exchange(server_has_closed, true)) return;
  if (discards) down_.packets.clear();
  send(down_, "", true);
}

void Connection::reset() {
  const bool arrives = the_kernel->random.chance(0.5);
  if (!arrives) up_.packets.clear();
  if (!client_has_closed) {
    down_.packets.clear();
    client_has_closed = true;
    if (auto* socket = the_kernel->file(descriptor)) socket->error = ECONNRESET;
    the_kernel->activity(descriptor);
  }
  send(up_, "", true);
}

namespace {

using File = Kernel::File;

File* simulated(int fd) {
  return the_kernel == nullptr || fd < first_descriptor ? nullptr : the_kernel->file(fd);
}

Time time_of(const timespec& moment) {
  return static_cast<Time>(moment.tv_sec) * second + moment.tv_nsec;
}

void set_timer(int fd, File& timer, Time moment) {
  timer.count = 0;
  const auto setting = ++timer.setting;
  if (moment == 0) return;
  the_kernel->at(moment, [fd, setting] {
    auto* expired = the_kernel->file(fd);
    if (expired == nullptr || expired->setting != setting) return;
    expired->count = 1;
    the_kernel->activity(fd);
  });
}

int connect_to(int fd, File& socket, const sockaddr* address) {
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof in);
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  const auto found = the_kernel->peers.find(text);
  if (found == the_kernel->peers.end()) return errno = ENETUNREACH, -1;
  auto& peer = *found->second;
  socket.connection = std::make_shared<Connection>(socket.owner, peer, fd);
  const auto cut = the_kernel->cut(socket.owner, &peer);
  const auto arrives = std::max(the_kernel->now, cut) + the_kernel->delay();
  the_kernel->at(arrives, [fd, &peer] {
    auto* connecting = the_kernel->file(fd);
    if (connecting == nullptr) return;
    if (peer.is_up) {
      connecting->is_connected = true;
      peer.connections.push_back(connecting->connection);
    } else {
      connecting->error = ECONNREFUSED;
    }
    the_kernel->activity(fd);
  });
  return errno = EINPROGRESS, -1;
}

}  // namespace
}  // namespace dlock::simulation

using dlock::simulation::the_kernel;
using Kind = dlock::simulation::Kernel::File::Kind;
namespace simulation = dlock::simulation;

extern "C" {

int clock_gettime(clockid_t clock, timespec* moment) noexcept {
  if (the_kernel == nullptr) {
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, moment));
  }
  auto now = the_kernel->now;
  if (clock == CLOCK_REALTIME) {
    now += simulation::epoch;
    if (the_kernel->running != nullptr) now += the_kernel->running->wall_offset;
  }
  moment->tv_sec = now / simulation::second;
  moment->tv_nsec = now % simulation::second;
  return 0;
}

pid_t getpid() noexcept {
  if (the_kernel == nullptr || the_kernel->running == nullptr) {
    return static_cast<pid_t>(::syscall(SYS_getpid));
  }
  return the_kernel->running->pid;
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  if (the_kernel == nullptr) return ::syscall(SYS_getrandom, buffer, size, flags);
  auto* bytes = static_cast<unsigned char*>(buffer);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<unsigned char>(the_kernel->random.next());
  }
  return static_cast<ssize_t>(size);
}

int epoll_create1(int flags) noexcept {
  if (the_kernel == nullptr) return static_cast<int>(::syscall(SYS_epoll_create1, flags));
  return the_kernel->open({Kind::poll});
}

int epoll_ctl(int poll, int operation, int fd, epoll_event* event) noexcept {
  auto* watcher = simulation::simulated(poll);
  auto* watched = simulation::simulated(fd);
  if (watcher == nullptr) {
    return static_cast<int>(::syscall(SYS_epoll_ctl, poll, operation, fd, event));
  }
  if (watched == nullptr) return errno = EBADF, -1;
  if (operation == EPOLL_CTL_DEL) {
    watcher->watched.erase(fd);
    watched->watcher = -1;
    return 0;
  }
  watched->watcher = poll;
  watcher->watched[fd] = {*event, true};
  watcher->owner->is_ready = true;
  return 0;
}

// Never waits: the simulation runs each event loop only when there may be an event.
// Throws if a process has something to do without end.
int epoll_wait(int poll, epoll_event* events, int most, int timeout) {
  auto* watcher = simulation::simulated(poll);
  if (watcher == nullptr) {
    return static_cast<int>(
        ::syscall(SYS_epoll_pwait, poll, events, most, timeout, nullptr, 0));
  }
  if (++the_kernel->looks > 100'000) throw std::runtime_error("it never sleeps");
  int found = 0;
  for (auto& [fd, watch] : watcher->watched) {
    if (found == most) break;
    const auto* file = the_kernel->file(fd);
    const auto state = file == nullptr ? 0u : file->state();
    const auto bits = state & (watch.wanted.events | EPOLLERR | EPOLLHUP);
    const bool is_edge = (watch.wanted.events & EPOLLET) != 0;
    if (bits == 0 || (is_edge && !watch.is_new)) continue;
    watch.is_new = false;
    events[found] = watch.wanted;
    events[found++].events = bits;
  }
  return found;
}

int eventfd(unsigned count, int flags) noexcept {
  if (the_kernel == nullptr) {
    return static_cast<int>(::syscall(SYS_eventfd2, count, flags));
  }
  auto file = simulation::Kernel::File{Kind::counter};
  file.count = count;
  return the_kernel->open(std::move(file));
}

int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  if (the_kernel == nullptr) {
    return static_cast<int>(::syscall(SYS_signalfd4, fd, mask, 8, flags));
  }
  return the_kernel->open({Kind::signals});
}

int timerfd_create(clockid_t clock, int flags) noexcept {
  if (the_kernel == nullptr) {
    return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
  }
  return the_kernel->open({Kind::timer});
}

int timerfd_settime(int fd, int flags, const itimerspec* setting,
                    itimerspec* before) noexcept {
  auto* timer = simulation::simulated(fd);
  if (timer == nullptr) {
    return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, setting, before));
  }
  auto moment = simulation::time_of(setting->it_value);
  if (moment != 0 && (flags & TFD_TIMER_ABSTIME) == 0) moment += the_kernel->now;
  simulation::set_timer(fd, *timer, moment);
  return 0;
}

int socket(int domain, int type, int protocol) noexcept {
  if (the_kernel == nullptr) {
    return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
  }
  return the_kernel->open({Kind::socket});
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) return static_cast<int>(::syscall(SYS_connect, fd, address, size));
  return simulation::connect_to(fd, *file, address);
}

int setsockopt(int fd, int level, int option, const void* value,
               socklen_t size) noexcept {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) {
    return static_cast<int>(::syscall(SYS_setsockopt, fd, level, option, value, size));
  }
  if (level == SOL_SOCKET && option == SO_LINGER) file->discards = true;
  return 0;
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* size) noexcept {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) {
    return static_cast<int>(::syscall(SYS_getsockopt, fd, level, option, value, size));
  }
  *static_cast<int*>(value) = level == SOL_SOCKET && option == SO_ERROR ? file->error : 0;
  return 0;
}

ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) {
    return ::syscall(SYS_sendto, fd, bytes, size, flags, nullptr, 0);
  }
  if (file->error != 0) return errno = file->error, -1;
  if (!file->is_connected) throw std::logic_error("it sends before it is connected");
  const auto& marks = the_kernel->asks;
  const bool asks = std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return ::memmem(bytes, size, mark.data(), mark.size()) != nullptr;
  });
  if (asks && file->owner != nullptr) file->owner->last_request = the_kernel->now;
  const auto& network = the_kernel->network;
  if (asks && the_kernel->random.chance(network.late_asks)) {
    file->connection->hold_up(
        the_kernel->random.spread(100 * simulation::millisecond, network.latest_ask));
  }
  file->connection->send_up({static_cast<const char*>(bytes), size});
  return static_cast<ssize_t>(size);
}

ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) {
    return ::syscall(SYS_recvfrom, fd, buffer, size, flags, nullptr, nullptr);
  }
  if (file->error != 0) return errno = file->error, -1;
  if (file->received.empty()) {
    if (file->has_ended) return 0;
    return errno = EAGAIN, -1;
  }
  const auto taken = std::min(size, file->received.size());
  std::memcpy(buffer, file->received.data(), taken);
  if ((flags & MSG_PEEK) == 0) file->received.erase(0, taken);
  return static_cast<ssize_t>(taken);
}

// The C library declares that poll() only writes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// What waits for a millisecond of real time finds nothing, and the event loop waits.
int poll(pollfd* files, nfds_t count, int timeout) {
  auto* file = count == 1 ? simulation::simulated(files->fd) : nullptr;
  if (file == nullptr) {
    const timespec limit{timeout / 1000, timeout % 1000 * 1'000'000L};
    return static_cast<int>(
        ::syscall(SYS_ppoll, files, count, timeout < 0 ? nullptr : &limit, nullptr, 0));
  }
  files->revents = static_cast<short>(
      file->state() & (static_cast<unsigned>(files->events) | POLLERR | POLLHUP));
  return files->revents != 0 ? 1 : 0;
}

ssize_t read(int fd, void* buffer, size_t size) {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) return ::syscall(SYS_read, fd, buffer, size);
  if (file->kind == Kind::signals) return recv(fd, buffer, size, 0);
  if (file->count == 0) return errno = EAGAIN, -1;
  std::memcpy(buffer, &file->count, sizeof file->count);
  file->count = 0;
  return sizeof file->count;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  auto* file = simulation::simulated(fd);
  if (file == nullptr) {
    const bool is_message = the_kernel != nullptr && fd == STDERR_FILENO;
    if (is_message && !the_kernel->traces) return static_cast<ssize_t>(size);
    return ::syscall(SYS_write, fd, bytes, size);
  }
  file->count += 1;
  the_kernel->activity(fd);
  return static_cast<ssize_t>(size);
}

int close(int fd) {
  if (the_kernel == nullptr || fd < simulation::first_descriptor) {
    return static_cast<int>(::syscall(SYS_close, fd));
  }
  return the_kernel->close(fd);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (simulation::simulated(fd) != nullptr) return 0;
  if (the_kernel != nullptr && request == TIOCGWINSZ) return errno = ENOTTY, -1;
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

}  // extern "C"
