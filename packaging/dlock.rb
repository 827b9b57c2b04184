# For Homebrew on Linux: installs the released program. Take this file from a release, where packaging/release has set
# the version and the sums, put the archives where `base` says, and run `brew install --formula ./dlock.rb`.
#
# Evaluated with a stand-in for Homebrew (tests/long/release.bats). Not run: the installation, which needs Homebrew.
class Dlock < Formula
  base = ENV.fetch("HOMEBREW_DLOCK_RELEASE", "file:///srv/dlock")

  desc "Hold a named lock while a command runs"
  version "0"
  license "MIT"
  depends_on :linux

  on_intel do
    url "#{base}/dlock-#{version}-linux-amd64.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end
  on_arm do
    url "#{base}/dlock-#{version}-linux-arm64.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end

  def install
    bin.install "bin/dlock"
    man1.install Dir["share/man/man1/*"]
    man5.install Dir["share/man/man5/*"]
    man7.install Dir["share/man/man7/*"]
    bash_completion.install "share/bash-completion/completions/dlock"
    zsh_completion.install "share/zsh/site-functions/_dlock"
    fish_completion.install "share/fish/vendor_completions.d/dlock.fish"
    doc.install Dir["share/doc/dlock/*"]
  end

  test do
    system bin/"dlock", "--store", "local:#{testpath}/locks", "run", "hello", "--", "true"
  end
end
