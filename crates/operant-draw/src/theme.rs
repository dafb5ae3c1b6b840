//! Colours. A theme gives every role its style; panels name roles and never colours.
//!
//! The dark and light palettes are written once in 24 bits and taken down to 256 colours where the terminal has no more.
//! `none` emits no colour at all: it distinguishes things by bold, dim and reversed alone.

use operant_metrics::tone::{LEVELS, parts};
use ratatui::style::{Color, Modifier, Style};

/// The themes, as `--theme` and the key `t` name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ThemeName {
    /// Chosen to fit the terminal.
    #[default]
    Auto,
    /// For a dark background.
    Dark,
    /// For a light background.
    Light,
    /// The terminal's own 16 colours.
    Ansi,
    /// No colour.
    None,
}

impl ThemeName {
    /// The word for it, as the command line takes it.
    pub const fn name(self) -> &'static str {
        match self {
            ThemeName::Auto => "auto",
            ThemeName::Dark => "dark",
            ThemeName::Light => "light",
            ThemeName::Ansi => "ansi",
            ThemeName::None => "none",
        }
    }

    /// The next one, in a cycle.
    pub const fn next(self) -> Self {
        match self {
            ThemeName::Auto | ThemeName::None => ThemeName::Dark,
            ThemeName::Dark => ThemeName::Light,
            ThemeName::Light => ThemeName::Ansi,
            ThemeName::Ansi => ThemeName::None,
        }
    }
}

/// How many colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    None,
    /// The 16 of ANSI.
    Ansi,
    /// xterm's 256.
    Indexed,
    /// 24 bits.
    True,
}

/// The terminal's colours according to the environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detected {
    pub depth: Depth,
    /// Whether the background is light.
    pub light: bool,
}

impl Detected {
    /// From this process's environment, if the program's `--color` does not decide.
    pub fn from_environment() -> Self {
        let found = Self::from(|name| std::env::var(name).ok());
        match (anstream::ColorChoice::global(), found.depth) {
            (anstream::ColorChoice::Never, _) => Detected { depth: Depth::None, ..found },
            (anstream::ColorChoice::Always, Depth::None) => Detected { depth: Depth::Ansi, ..found },
            _ => found,
        }
    }

    /// From the variables that `get` knows: NO_COLOR, COLORTERM, TERM, COLORFGBG.
    pub fn from(get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let depth = if set("NO_COLOR").is_some()
            || term == "dumb"
            || term.starts_with("vt")
            || term.ends_with("-mono")
        {
            Depth::None
        } else if set("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit")
            || term.ends_with("-direct")
        {
            Depth::True
        } else if term.contains("256color") || set("COLORTERM").is_some() {
            Depth::Indexed
        } else {
            Depth::Ansi
        };
        // "foreground;background" or "foreground;other;background", in ANSI's numbers: 7 and 9 .. 15 are light.
        let background = set("COLORFGBG")
            .and_then(|value| value.rsplit(';').next().and_then(|last| last.parse::<u8>().ok()));
        Detected { depth, light: matches!(background, Some(7 | 9..=15)) }
    }
}

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// Colours of pictures outside a terminal, such as films: background, text and palette entries.
pub const FILM: (Rgb, Rgb, [Rgb; TONES]) = (DARK.background, DARK.strong, DARK.tones);
/// The same of a light page.
pub const FILM_LIGHT: (Rgb, Rgb, [Rgb; TONES]) = (LIGHT.background, LIGHT.strong, LIGHT.tones);
/// The colour between the frames of a sheet.
pub(crate) const GUTTER_COLOUR: Rgb = DARK.border;

/// Colours by their hexadecimal numbers.
pub const fn hex<const N: usize>(numbers: [u32; N]) -> [Rgb; N] {
    let mut colours = [(0, 0, 0); N];
    let mut i = 0;
    while i < N {
        let [_, red, green, blue] = numbers[i].to_be_bytes();
        colours[i] = (red, green, blue);
        i += 1;
    }
    colours
}

/// Colours that a user chose for roles of the dark and the light theme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Colours(Vec<(usize, Rgb)>);

/// The roles that take a colour of the user.
pub const ROLES: [&str; 9 + CURVES] = [
    "text", "strong", "muted", "faint", "border", "accent", "good", "warning", "bad", "curve1", "curve2",
    "curve3", "curve4", "curve5", "curve6", "curve7", "curve8",
];

impl Colours {
    /// Gives a role a colour, written `#5cc8eb`.
    ///
    /// # Errors
    /// Why the role or the colour is not known.
    pub fn set(&mut self, role: &str, colour: &str) -> Result<(), String> {
        let Some(index) = ROLES.iter().position(|known| *known == role) else {
            return Err(format!("there is no role {role}; the roles are {}", ROLES.join(", ")));
        };
        let digits = colour.strip_prefix('#').filter(|digits| digits.len() == 6);
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let number = number.ok_or_else(|| format!("{colour} is not a colour such as #5cc8eb"))?;
        self.0.push((index, hex([number])[0]));
        Ok(())
    }

    fn applied_to(&self, palette: &Palette) -> Palette {
        let mut palette = palette.clone();
        for (index, colour) in &self.0 {
            *palette.role(*index) = *colour;
        }
        palette
    }
}

/// A palette in 24 bits.
#[derive(Clone)]
struct Palette {
    /// What tints are mixed with; never painted.
    background: Rgb,
    text: Rgb,
    strong: Rgb,
    muted: Rgb,
    faint: Rgb,
    border: Rgb,
    accent: Rgb,
    good: Rgb,
    warning: Rgb,
    bad: Rgb,
    curves: [Rgb; CURVES],
    /// Ground, body, accent, target, faint; red, green, blue, purple, yellow, grey, dark green, brown, white.
    tones: [Rgb; TONES],
    /// From a low value to a high one, where high is neither good nor bad.
    ramp: [Rgb; 3],
    /// From idle to saturated. Not red: training should keep the machine busy.
    heat: [Rgb; 3],
}

/// A colour at a level of brightness, which approaches `dark`.
fn lit(tone: Rgb, level: usize, dark: Rgb) -> Rgb {
    mix(dark, tone, BRIGHTNESS[level])
}

/// The colours of all tones at each level of brightness, where dark things approach `dark`.
pub fn by_level(tones: &[Rgb; TONES], dark: Rgb) -> [[Rgb; TONES]; LEVELS] {
    core::array::from_fn(|level| tones.map(|tone| lit(tone, level, dark)))
}

/// The colour of a tone in a film; of an unknown one faint.
pub(crate) fn film_tone(tone: u8) -> Rgb {
    let (entry, level) = parts(tone);
    lit(*DARK.tones.get(entry).unwrap_or(&DARK.tones[4]), level, DARK.background)
}

impl Palette {
    /// What follows from the tones at each level of brightness.
    fn by_level(&self, of: impl Fn(Rgb) -> Style) -> [[Style; TONES]; LEVELS] {
        // The darker one of background and text, so that dark things are dark on a light background too.
        let dark = contrasting((255, 255, 255), self.background, self.strong);
        core::array::from_fn(|level| self.tones.map(|tone| of(lit(tone, level, dark))))
    }

    /// The colour of a role, by its index in [`ROLES`].
    fn role(&mut self, index: usize) -> &mut Rgb {
        match index {
            0 => &mut self.text,
            1 => &mut self.strong,
            2 => &mut self.muted,
            3 => &mut self.faint,
            4 => &mut self.border,
            5 => &mut self.accent,
            6 => &mut self.good,
            7 => &mut self.warning,
            8 => &mut self.bad,
            curve => &mut self.curves[(curve - 9) % CURVES],
        }
    }
}

/// Number of colours for curves before they repeat.
pub const CURVES: usize = 8;
/// Number of palette entries.
pub const TONES: usize = 14;
/// The share of its colour that a tone has at each level of brightness.
const BRIGHTNESS: [f64; LEVELS] = [1.0, 0.7, 0.45, 0.3];

const DARK: Palette = Palette {
    background: (14, 17, 23),
    text: (201, 209, 222),
    strong: (240, 244, 250),
    muted: (128, 139, 158),
    faint: (66, 75, 92),
    border: (58, 68, 86),
    accent: (92, 200, 235),
    good: (120, 214, 140),
    warning: (242, 190, 92),
    bad: (244, 104, 112),
    curves: hex([0x5cc8eb, 0xf5a962, 0x86d682, 0xd68ce8, 0xecd66c, 0x809cf6, 0xf08094, 0x60d6be]),
    tones: hex([
        0x68748a, 0x5cc8eb, 0xf5a962, 0x78d68c, 0x424b5c, 0xf05454, 0x48c45c, 0x5480f8, 0xb870f0, 0xf2d64c,
        0x9298a4, 0x22763a, 0x96623a, 0xf0f4fa,
    ]),
    ramp: [(86, 122, 236), (80, 190, 236), (110, 232, 186)],
    heat: [(92, 148, 236), (96, 208, 160), (242, 196, 96)],
};

const LIGHT: Palette = Palette {
    background: (252, 252, 250),
    text: (46, 52, 64),
    strong: (12, 16, 24),
    muted: (106, 114, 128),
    faint: (190, 196, 206),
    border: (176, 184, 196),
    accent: (0, 110, 168),
    good: (22, 128, 60),
    warning: (168, 100, 0),
    bad: (196, 32, 48),
    curves: hex([0x006eb0, 0xc45c0a, 0x208438, 0x8e34a8, 0x8c6e00, 0x3c48c4, 0xc42454, 0x008074]),
    tones: hex([
        0x848c9a, 0x006eb0, 0xc45c0a, 0x16803c, 0xbec4ce, 0xce2028, 0x1c9634, 0x2848d8, 0x882cb8, 0xc49600,
        0x787c84, 0x0c5824, 0x7c4a1e, 0xf0f2f6,
    ]),
    ramp: [(60, 72, 196), (0, 120, 190), (0, 140, 110)],
    heat: [(60, 96, 196), (22, 128, 60), (176, 104, 0)],
};

/// Styles by role.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    /// Which one it is; never `Auto`.
    pub name: ThemeName,
    /// How many colours it may use.
    pub depth: Depth,
    /// Ordinary text.
    pub text: Style,
    /// Values that the eye should find first.
    pub strong: Style,
    /// Labels and units.
    pub muted: Style,
    /// Grid lines and other minor text.
    pub faint: Style,
    /// Borders of panels.
    pub border: Style,
    /// The border of the panel with the focus.
    pub border_focused: Style,
    /// Titles of panels.
    pub title: Style,
    /// The selected one of several things, keys in hints.
    pub accent: Style,
    /// A row that is selected.
    pub selection: Style,
    /// Running, finished, solved.
    pub good: Style,
    /// Paused, stopping, stalled.
    pub warning: Style,
    /// Failed, killed.
    pub bad: Style,
    curves: [Style; CURVES],
    tints: [Option<Color>; CURVES],
    /// The tones by level of brightness.
    tones: [[Style; TONES]; LEVELS],
    /// Text on a filled cell of each tone.
    on_tones: [[Style; TONES]; LEVELS],
    ramp: Option<[Rgb; 3]>,
    heat: Option<[Rgb; 3]>,
}

impl Theme {
    /// The theme called `name` on a terminal such as `detected`. A theme that was requested by name keeps its colours
    /// under NO_COLOR, in the 256 that nearly every terminal has.
    pub fn new(name: ThemeName, detected: Detected) -> Self {
        Self::coloured(name, detected, &Colours::default())
    }

    /// [`Theme::new`] with colours of the user in the dark and the light theme.
    pub fn coloured(name: ThemeName, detected: Detected, colours: &Colours) -> Self {
        let indexed = detected.depth.max(Depth::Indexed);
        match (name, detected.depth) {
            (ThemeName::None, _) | (ThemeName::Auto, Depth::None) => Self::none(),
            (ThemeName::Ansi, _) | (ThemeName::Auto, Depth::Ansi) => Self::ansi(),
            (ThemeName::Auto, depth) if detected.light => {
                Self::from_palette(ThemeName::Light, &colours.applied_to(&LIGHT), depth)
            }
            (ThemeName::Auto, depth) => {
                Self::from_palette(ThemeName::Dark, &colours.applied_to(&DARK), depth)
            }
            (ThemeName::Light, _) => {
                Self::from_palette(ThemeName::Light, &colours.applied_to(&LIGHT), indexed)
            }
            (ThemeName::Dark, _) => Self::from_palette(ThemeName::Dark, &colours.applied_to(&DARK), indexed),
        }
    }

    /// The dark theme in 24 bits.
    pub fn dark() -> Self {
        Self::from_palette(ThemeName::Dark, &DARK, Depth::True)
    }

    fn from_palette(name: ThemeName, palette: &Palette, depth: Depth) -> Self {
        let style = |rgb: Rgb| Style::new().fg(color(rgb, depth));
        let tint = |rgb: Rgb| Some(color(mix(palette.background, rgb, 0.24), depth));
        Theme {
            name,
            depth,
            text: style(palette.text),
            strong: style(palette.strong).add_modifier(Modifier::BOLD),
            muted: style(palette.muted),
            faint: style(palette.faint),
            border: style(palette.border),
            border_focused: style(palette.accent),
            title: style(palette.text).add_modifier(Modifier::BOLD),
            accent: style(palette.accent).add_modifier(Modifier::BOLD),
            selection: style(palette.strong)
                .bg(color(mix(palette.background, palette.accent, 0.24), depth))
                .add_modifier(Modifier::BOLD),
            good: style(palette.good),
            warning: style(palette.warning),
            bad: style(palette.bad),
            curves: palette.curves.map(style),
            tints: palette.curves.map(tint),
            tones: palette.by_level(style),
            on_tones: palette.by_level(|tone| {
                let text = contrasting(tone, palette.background, palette.strong);
                style(text).bg(color(tone, depth)).add_modifier(Modifier::BOLD)
            }),
            ramp: Some(palette.ramp),
            heat: Some(palette.heat),
        }
    }

    /// The terminal's own 16 colours: no background is assumed.
    pub fn ansi() -> Self {
        let style = |color| Style::new().fg(color);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Theme {
            name: ThemeName::Ansi,
            depth: Depth::Ansi,
            text: Style::new(),
            strong: bold,
            muted: Style::new().add_modifier(Modifier::DIM),
            faint: style(Color::DarkGray),
            border: style(Color::DarkGray),
            border_focused: style(Color::Cyan),
            title: bold,
            accent: style(Color::Cyan).add_modifier(Modifier::BOLD),
            selection: bold.add_modifier(Modifier::REVERSED),
            good: style(Color::Green),
            warning: style(Color::Yellow),
            bad: style(Color::Red),
            curves: [
                Color::Cyan,
                Color::Yellow,
                Color::Green,
                Color::Magenta,
                Color::Blue,
                Color::Red,
                Color::LightCyan,
                Color::LightGreen,
            ]
            .map(style),
            tints: [None; CURVES],
            tones: of_16(style),
            on_tones: of_16(|tone| {
                let text = if tone == Color::DarkGray { Color::White } else { Color::Black };
                style(text).bg(tone)
            }),
            ramp: None,
            heat: None,
        }
    }

    pub fn none() -> Self {
        let plain = Style::new();
        let [bold, dim, reversed] =
            [Modifier::BOLD, Modifier::DIM, Modifier::REVERSED].map(|modifier| plain.add_modifier(modifier));
        let tones =
            [dim, bold, plain, bold, dim, plain, plain, plain, plain, plain, dim, plain, plain, plain];
        Theme {
            name: ThemeName::None,
            depth: Depth::None,
            text: plain,
            strong: bold,
            muted: dim,
            faint: dim,
            border: dim,
            border_focused: bold,
            title: bold,
            accent: bold,
            selection: reversed,
            good: plain,
            warning: bold,
            bad: bold,
            curves: [bold, plain, dim, bold, plain, dim, bold, plain],
            tints: [None; CURVES],
            tones: [tones; LEVELS],
            on_tones: [[plain; TONES]; LEVELS],
            ramp: None,
            heat: None,
        }
    }

    pub fn curve(&self, number: usize) -> Style {
        self.curves[number % CURVES]
    }

    /// A background for the band around the curve with this number, where the theme has colours enough.
    pub fn tint(&self, number: usize) -> Option<Color> {
        self.tints[number % CURVES]
    }

    /// The style of a palette entry, in its brightness ([`operant_metrics::tone`]). Other numbers are faint.
    pub fn tone(&self, tone: u8) -> Style {
        let (entry, level) = parts(tone);
        *self.tones[level].get(entry).unwrap_or(&self.tones[level][4])
    }

    /// Text on a cell that is filled with this colour; None for a colour that is no tone.
    pub fn on_tone(&self, ground: Color) -> Option<Style> {
        let tone = self.tones.as_flattened().iter().position(|tone| tone.fg == Some(ground))?;
        Some(self.on_tones.as_flattened()[tone])
    }

    /// A colour for a share of 0 to 1 of which more is neither good nor bad.
    pub fn ramp(&self, share: f64) -> Style {
        match &self.ramp {
            Some(stops) => Style::new().fg(color(along(stops, share), self.depth)),
            None => self.accent,
        }
    }

    /// A colour for how busy something is, 0 to 1.
    pub fn heat(&self, share: f64) -> Style {
        match &self.heat {
            Some(stops) => Style::new().fg(color(along(stops, share), self.depth)),
            None if share > 0.9 => self.warning,
            None => self.good,
        }
    }
}

/// The colour a share of the way through three stops; NaN counts as 0.
fn along(stops: &[Rgb; 3], share: f64) -> Rgb {
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) * 2.0 };
    if share < 1.0 { mix(stops[0], stops[1], share) } else { mix(stops[1], stops[2], share - 1.0) }
}

/// The one of two colours that is easier to read on `ground`.
pub fn contrasting(ground: Rgb, dark: Rgb, light: Rgb) -> Rgb {
    let luminance = |(r, g, b): Rgb| 0.299 * f32::from(r) + 0.587 * f32::from(g) + 0.114 * f32::from(b);
    let distance = |rgb: Rgb| (luminance(rgb) - luminance(ground)).abs();
    if distance(dark) > distance(light) { dark } else { light }
}

/// The tones in the terminal's own 16 colours.
const TONES_OF_16: [Color; TONES] = [
    Color::DarkGray,
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightYellow,
    Color::Gray,
    Color::Green,
    Color::Yellow,
    Color::White,
];

/// What follows from these tones and, for all darker levels, from the dark half of the 16 colours.
fn of_16(style: impl Fn(Color) -> Style) -> [[Style; TONES]; LEVELS] {
    let dark = TONES_OF_16.map(|tone| match tone {
        Color::LightRed => Color::Red,
        Color::LightGreen => Color::Green,
        Color::LightBlue => Color::Blue,
        Color::LightMagenta => Color::Magenta,
        Color::LightYellow => Color::Yellow,
        Color::Gray => Color::DarkGray,
        Color::White => Color::Gray,
        tone => tone,
    });
    [TONES_OF_16, dark, dark, dark].map(|tones| tones.map(&style))
}

fn mix(from: Rgb, to: Rgb, share: f64) -> Rgb {
    let channel = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    (channel(from.0, to.0), channel(from.1, to.1), channel(from.2, to.2))
}

fn color(rgb: Rgb, depth: Depth) -> Color {
    match depth {
        Depth::True => Color::Rgb(rgb.0, rgb.1, rgb.2),
        _ => Color::Indexed(nearest(rgb)),
    }
}

/// The nearest of xterm's 6 x 6 x 6 cube and 24 greys.
fn nearest(rgb: Rgb) -> u8 {
    const LEVELS: [i32; 6] = [0, 95, 135, 175, 215, 255];
    let channels = [rgb.0, rgb.1, rgb.2].map(i32::from);
    let step = |value: i32| (0..6).min_by_key(|i| (LEVELS[*i] - value).abs()).unwrap_or(0);
    let cube = channels.map(step);
    let distance = |other: [i32; 3]| -> i32 { (0..3).map(|i| (channels[i] - other[i]).pow(2)).sum() };
    let grey = ((channels.iter().sum::<i32>() / 3 - 8 + 5) / 10).clamp(0, 23);
    match distance([8 + 10 * grey; 3]) < distance(cube.map(|i| LEVELS[i])) {
        true => 232 + grey as u8,
        false => (16 + 36 * cube[0] + 6 * cube[1] + cube[2]) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(pairs: &[(&str, &str)]) -> Detected {
        Detected::from(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn the_environment_decides_the_depth() {
        assert_eq!(detect(&[("TERM", "xterm-256color")]).depth, Depth::Indexed);
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]).depth, Depth::True);
        assert_eq!(detect(&[("TERM", "linux")]).depth, Depth::Ansi);
        assert_eq!(detect(&[("TERM", "xterm-mono")]).depth, Depth::None);
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).depth, Depth::None);
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]).depth, Depth::Indexed);
        assert_eq!(detect(&[("TERM", "dumb")]).depth, Depth::None);
        assert!(detect(&[("COLORFGBG", "0;15")]).light);
        assert!(detect(&[("COLORFGBG", "0;default;15")]).light);
        assert!(!detect(&[("COLORFGBG", "15;0")]).light);
        assert!(!detect(&[("COLORFGBG", "nonsense")]).light);
    }

    #[test]
    fn no_color_wins_over_auto_and_loses_to_a_theme_by_name() {
        let none = Detected { depth: Depth::None, light: false };
        assert_eq!(Theme::new(ThemeName::Auto, none), Theme::none());
        assert_eq!(Theme::new(ThemeName::Dark, none).depth, Depth::Indexed);
        assert_eq!(Theme::new(ThemeName::Dark, none).name, ThemeName::Dark);
    }

    #[test]
    fn the_theme_without_colour_has_none() {
        let theme = Theme::none();
        let shares = [0.0, 0.5, 0.95, f64::NAN];
        let styles = (0..CURVES)
            .map(|i| theme.curve(i))
            .chain((0..20).map(|i| theme.tone(i)))
            .chain(shares.into_iter().flat_map(|share| [theme.ramp(share), theme.heat(share)]))
            .chain([theme.text, theme.strong, theme.muted, theme.faint, theme.border, theme.border_focused])
            .chain([theme.title, theme.accent, theme.selection, theme.good, theme.warning, theme.bad]);
        for style in styles {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert!((0..CURVES).all(|i| theme.tint(i).is_none()));
    }

    #[test]
    fn darker_tones_are_darker_on_any_background() {
        use operant_metrics::tone::{GREEN, darker};
        let light = Detected { depth: Depth::True, light: true };
        for theme in [Theme::dark(), Theme::new(ThemeName::Light, light)] {
            let brightness = (0..5).map(|by| match theme.tone(darker(GREEN, by)).fg {
                Some(Color::Rgb(red, green, blue)) => u32::from(red) + u32::from(green) + u32::from(blue),
                other => panic!("{other:?}"),
            });
            let brightness: Vec<u32> = brightness.collect();
            assert!(brightness[..4].is_sorted_by(|a, b| a > b), "{brightness:?}");
            assert_eq!(brightness[3], brightness[4], "there are four levels");
        }
        assert_eq!(Theme::ansi().tone(darker(GREEN, 1)).fg, Some(Color::Green));
    }

    #[test]
    fn known_colours_find_their_index() {
        assert_eq!(nearest((0, 0, 0)), 16);
        assert_eq!(nearest((255, 255, 255)), 231);
        assert_eq!(nearest((255, 0, 0)), 196);
        assert_eq!(nearest((118, 118, 118)), 243);
    }

    #[test]
    fn the_key_goes_round_all_themes() {
        let mut name = ThemeName::Dark;
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(name);
            name = name.next();
        }
        assert_eq!(name, ThemeName::Dark);
        assert_eq!(seen, [ThemeName::Dark, ThemeName::Light, ThemeName::Ansi, ThemeName::None]);
    }

    #[test]
    fn a_role_takes_a_colour_of_the_user() {
        let mut colours = Colours::default();
        colours.set("accent", "#102030").expect("a role");
        colours.set("curve2", "#0a0b0c").expect("a role");
        let at = Detected { depth: Depth::True, light: false };
        let theme = Theme::coloured(ThemeName::Dark, at, &colours);
        assert_eq!(theme.accent.fg, Some(Color::Rgb(16, 32, 48)));
        assert_eq!(theme.curve(1).fg, Some(Color::Rgb(10, 11, 12)));
        let plain = Theme::new(ThemeName::Dark, at);
        assert_eq!((theme.good, theme.curve(0)), (plain.good, plain.curve(0)));
        assert!(colours.set("colour", "#102030").expect_err("a role").contains("accent, good"));
        for bad in ["red", "#12345", "#12345g", "123456"] {
            assert!(colours.set("bad", bad).expect_err(bad).contains("is not a colour"), "{bad}");
        }
        for (index, role) in ROLES.iter().enumerate() {
            let mut one = Colours::default();
            one.set(role, "#010203").expect("a role");
            assert_eq!(*one.applied_to(&LIGHT).role(index), (1, 2, 3), "{role}");
        }
    }
}
