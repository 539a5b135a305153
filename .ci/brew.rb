# What `brew install` and `brew uninstall` do with a formula, from archives that are here: brew.rb install|uninstall FORMULA ARCHIVES PREFIX
require "digest"
require "fileutils"
require "pathname"
require "rbconfig"
require "tmpdir"

class Pathname
  def install(*things)
    mkpath
    things.flat_map { |t| t.is_a?(Hash) ? t.to_a : [[t, File.basename(t)]] }.each { |from, to| FileUtils.mv(from, self / to) }
  end
end

class Formula
  class << self
    attr_reader :sources, :check
    %i[desc homepage license].each { |word| define_method(word) { |_| } }
    def version(text = nil) = text ? @version = text : @version
    def url(text) = (@sources ||= []) << [text]
    def sha256(text) = @sources.last << text
    def on_macos = yield_if(RbConfig::CONFIG["host_os"].include?("darwin")) { yield }
    def on_linux = yield_if(RbConfig::CONFIG["host_os"].include?("linux")) { yield }
    def on_arm = yield_if(RbConfig::CONFIG["host_cpu"].match?(/arm|aarch/)) { yield }
    def on_intel = yield_if(RbConfig::CONFIG["host_cpu"].include?("x86_64")) { yield }
    def yield_if(so) = so ? yield : nil
    def test(&block) = @check = block
  end
  attr_reader :prefix

  def initialize(cellar) = @prefix = Pathname(cellar) / version
  def version = self.class.version
  def bin = prefix / "bin"
  def man1 = prefix / "share/man/man1"
  def man5 = prefix / "share/man/man5"
  def bash_completion = prefix / "etc/bash_completion.d"
  def zsh_completion = prefix / "share/zsh/site-functions"
  def fish_completion = prefix / "share/fish/vendor_completions.d"
  def pkgshare = prefix / "share/tierml"
  def assert_match(want, text) = text.include?(want) || raise("#{want} is not in #{text}")
  def shell_output(command) = `#{command}`.tap { raise "#{command} failed" unless $?.success? }
end

verb, file, archives, prefix = ARGV
load file
cellar = Pathname(prefix) / "Cellar"
formula = Tierml.new(cellar / "tierml")
linked = Pathname(prefix) / "bin/tierml"
if verb == "install"
  raise "not one source for this machine: #{Tierml.sources}" unless Tierml.sources.length == 1
  url, sum = Tierml.sources.first
  archive = File.join(archives, File.basename(url))
  raise "#{archive} has another checksum" unless Digest::SHA256.file(archive).hexdigest == sum
  Dir.mktmpdir do |folder|
    system("tar", "-C", folder, "--strip-components=1", "-xzf", archive) || raise("tar failed")
    Dir.chdir(folder) { formula.install }
  end
  FileUtils.ln_s(formula.bin / "tierml", linked)
  formula.instance_eval(&Tierml.check)
else
  FileUtils.rm_r([linked, cellar])
end
