# For Nix: `nix run ./packaging -- run hello -- true` in a checkout, or `nix build ./packaging`.
#
# Parsed, and evaluated with stand-ins for nixpkgs (tests/long/release.bats). Not run: the build, which needs nixpkgs.
{
  description = "Hold a named lock while a command runs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-24.11";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forAll = function: nixpkgs.lib.genAttrs systems (system: function nixpkgs.legacyPackages.${system});
    in
    {
      packages = forAll (pkgs: {
        default = pkgs.stdenv.mkDerivation {
          pname = "dlock";
          # Of the project() line, as everywhere. Nix knows the commit, but hides git from the build.
          version = builtins.head (builtins.match ".*project\\(dlock VERSION ([0-9.]+) .*" (builtins.readFile ../CMakeLists.txt));
          src = ../.;
          nativeBuildInputs = with pkgs; [ cmake ninja ];
          buildInputs = with pkgs; [
            boost c-ares cli11 hiredis nghttp2 nlohmann_json openssl protozero toml11 utf8proc xxHash zlib zstd
          ];
          meta = {
            description = "Hold a named lock while a command runs";
            license = pkgs.lib.licenses.mit;
            platforms = pkgs.lib.platforms.linux;
            mainProgram = "dlock";
          };
        };
      });
    };
}
